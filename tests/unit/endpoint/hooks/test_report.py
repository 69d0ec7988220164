"""A hook that failed since pods are gone is another matter than one that a server refused."""

from __future__ import annotations

import pytest

from tare.api.reasons import Reason
from tare.endpoint.hooks.report import blame, report_of
from tare.measure.hooks import CallOutcome, HookCall, HookKind, HookReport, Replica

DONE, AWAY = CallOutcome.UNVERIFIED, CallOutcome.UNREACHABLE


def report(hook: HookKind, *outcomes: CallOutcome) -> HookReport:
    """Report of a hook on `qwen-0`, `qwen-1` …"""
    replicas = [
        Replica(uid=f"uid-{n}", name=f"qwen-{n}", origin=f"http://10.0.0.{n}")
        for n in range(len(outcomes))
    ]
    rows = [
        HookCall(
            hook=hook,
            replica=replica.name,
            origin=replica.origin,
            attempt=1,
            status=None,
            seconds=0.0,
            outcome=outcome,
            message="no connection",
        )
        for replica, outcome in zip(replicas, outcomes, strict=True)
    ]
    return report_of(hook, "/hook", replicas, [[row] for row in rows])


def test_a_profiler_ends_with_its_pod() -> None:
    failed = report(HookKind.PROFILER_STOP, DONE, AWAY, AWAY)
    judged = blame(failed, {"qwen-1", "qwen-2"})
    assert (judged.ok, judged.reason) == (True, None)
    assert judged.message == (
        "profiler stop accepted by 1 of 3 replicas; gone with their pods: qwen-1, qwen-2"
    )
    assert judged.calls == failed.calls, "the audit tells what happened"


def test_a_living_replica_whose_profiler_did_not_stop_is_still_to_blame() -> None:
    judged = blame(report(HookKind.PROFILER_STOP, AWAY, AWAY), {"qwen-1"})
    assert (judged.ok, judged.reason) == (False, Reason.PROFILER_STOP_FAILED)
    assert judged.message.endswith("(also failed: qwen-1); gone meanwhile: qwen-1")


@pytest.mark.parametrize("hook", [HookKind.RESET, HookKind.PROFILER_START])
def test_any_other_hook_that_met_a_pod_that_is_gone_means_a_changed_set(hook: HookKind) -> None:
    judged = blame(report(hook, DONE, AWAY), {"qwen-1"})
    assert (judged.ok, judged.reason) == (False, Reason.REPLICAS_CHANGED)
    assert judged.message.endswith("gone meanwhile: qwen-1")


@pytest.mark.parametrize("gone", [set(), {"qwen-0"}, {"another"}])
def test_a_failure_that_no_missing_pod_explains_stays_as_it_is(gone: set[str]) -> None:
    failed = report(HookKind.RESET, DONE, AWAY)
    assert blame(failed, gone) is failed
