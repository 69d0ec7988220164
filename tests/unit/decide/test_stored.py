"""What is read back from a stored run, and that the CRD keeps all that decisions write."""

from __future__ import annotations

import copy
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.summaries import GOALS, cells, measured
from support.world import World, manifest, report
from tare.api.crd import build_crd
from tare.api.reasons import CellState, Reason
from tare.api.status import BenchmarkRunStatus
from tare.decide.acceptance import Accepted, accept
from tare.decide.attempt import (
    Attempt,
    ProfilerMark,
    ProfilerState,
    ResetMark,
    ResetState,
    Verdict,
)
from tare.decide.children import TrialKey
from tare.decide.conditions import timestamp
from tare.decide.facts import OpKind, Run
from tare.decide.outcome import outcome_of
from tare.decide.rows import row
from tare.decide.stored import is_finished, run_of
from tare.devcluster.apiserver.pruning import prune
from tare.devcluster.apiserver.schema import Schema, compile_structural
from tare.devcluster.apiserver.validation import validate
from tare.measure.hooks import HookKind, Replica
from tare.measure.servers import ServerCount, ServerCounts, ServerFact
from tare.net.allowlist import AllowList

if TYPE_CHECKING:
    from collections.abc import Callable

NOW = 1_796_040_000.0
VERSION = build_crd()["spec"]["versions"][0]
SCHEMA = compile_structural(VERSION["schema"]["openAPIV3Schema"]["properties"]["status"])

SHORT = st.text(max_size=30)
MESSAGES = st.text(max_size=1024)
SECONDS = st.floats(min_value=0, max_value=4e9, allow_nan=False)
REPLICAS = st.none() | st.lists(
    st.builds(Replica, uid=SHORT, name=SHORT, origin=SHORT), max_size=3
).map(tuple)
TOLD = st.dictionaries(
    st.sampled_from([*ServerCount, *ServerFact]).map(str),
    st.floats(allow_nan=False, allow_infinity=False),
)
RESETS = st.builds(ResetMark, state=st.sampled_from(ResetState), message=MESSAGES)
ATTEMPTS = st.builds(
    Attempt,
    key=st.builds(TrialKey, *[st.integers(min_value=0, max_value=500)] * 3),
    started=SECONDS,
    spawned=st.none() | SECONDS,
    faults=st.integers(min_value=0, max_value=3),
    replicas=REPLICAS,
    reset_servers=REPLICAS,
    profiler_servers=REPLICAS,
    servers=st.none()
    | st.lists(st.builds(ServerCounts, replica=SHORT, before=TOLD, after=TOLD), max_size=3).map(
        tuple
    ),
    start_skew=st.dictionaries(st.sampled_from(["warmup", "profiling"]), SECONDS),
    reset=st.none() | RESETS,
    before_profiling=st.none()
    | st.builds(replace, RESETS, phase=st.integers(min_value=0, max_value=15)),
    profiler=st.none()
    | st.builds(
        ProfilerMark,
        state=st.sampled_from(ProfilerState),
        phase=st.integers(min_value=0, max_value=15),
        last=st.integers(min_value=0, max_value=15),
        message=MESSAGES,
        started=st.none() | SECONDS,
    ),
    verdict=st.none()
    | st.builds(
        Verdict,
        state=st.sampled_from(CellState),
        reason=st.sampled_from(Reason),
        message=MESSAGES,
        at=SECONDS,
        again=st.booleans(),
        fatal=st.booleans(),
    ),
)


def accepted(document: dict[str, Any]) -> Accepted:
    outcome = accept(document, allow_targets=AllowList.parse(""))
    assert isinstance(outcome, Accepted), outcome
    return outcome


def run_from(document: dict[str, Any]) -> Run:
    return run_of(document, accepted(manifest()))


@given(ATTEMPTS)
def test_an_attempt_survives_a_restart_whole(attempt: Attempt) -> None:
    assert Attempt.from_json(attempt.to_json()) == attempt


@given(ATTEMPTS)
def test_the_crd_keeps_every_attempt(attempt: Attempt) -> None:
    assert_kept({"current": attempt.to_json()})


def test_b105_a_hooks_report_over_many_replicas_is_cut_to_what_the_crd_takes() -> None:
    huge = "x" * 100_000
    attempt = Attempt(
        key=TrialKey(0, 0, 1),
        started=NOW,
        reset=ResetMark(state=ResetState.UNVERIFIED, message=huge),
        profiler=ProfilerMark(state=ProfilerState.STOP_FAILED, phase=1, last=1, message=huge),
        verdict=Verdict(state=CellState.FAILED, reason=Reason.RESET_REFUSED, message=huge, at=NOW),
    )
    assert_kept({"current": attempt.to_json()})


@pytest.mark.parametrize("document", [None, {}])
def test_without_a_stored_attempt_none_is_under_way(document: dict[str, Any] | None) -> None:
    assert Attempt.from_json(document) is None


def test_what_an_older_operator_did_not_write_has_its_default() -> None:
    old = {"cell": 1, "trial": 0, "attempt": 2, "startedAt": NOW}
    assert Attempt.from_json(old) == Attempt(key=TrialKey(1, 0, 2), started=NOW)


def test_the_start_time_is_read_as_it_was_written() -> None:
    document = manifest()
    document["status"] = {"startTime": timestamp(NOW)}
    assert run_from(document).start_time == NOW
    assert run_from(manifest()).start_time is None


def test_switches_are_read_from_the_object_as_it_is_now() -> None:
    document = manifest(suspend=True, cancel=True, activeDeadlineSeconds=60)
    run = run_from(document)
    assert (run.suspend, run.cancel, run.deadline_seconds) == (True, True, 60)
    assert not run.spec_changed


@pytest.mark.parametrize(
    "change",
    [
        {"goals": [{"metric": "error_rate", "max": "1%"}]},
        {"sweep": None},
        {"workers": {"replicas": 3}},
    ],
)
def test_b115_any_other_change_is_noticed_and_not_followed(change: dict[str, Any]) -> None:
    run = run_from(manifest(**change))
    assert run.spec_changed
    assert len(run.cells) == 2
    assert run.spec.workers.replicas == 2


def test_every_trial_of_every_cell_is_scheduled_once() -> None:
    document = manifest(trials={"count": 3, "order": "Interleaved"})
    run = run_of(document, accepted(document))
    assert run.schedule == ((0, 0), (1, 0), (0, 1), (1, 1), (0, 2), (1, 2))


def test_deletion_and_finalizers_are_seen() -> None:
    document = manifest()
    document["metadata"] |= {"deletionTimestamp": timestamp(NOW), "finalizers": ["tare.dev/x"]}
    run = run_from(document)
    assert (run.deleting, run.finalizers) == (True, ("tare.dev/x",))
    assert (run_from(manifest()).deleting, run_from(manifest()).finalizers) == (False, ())


@pytest.mark.parametrize(
    ("conditions", "finished"),
    [
        (None, False),
        ([], False),
        ([{"type": "Complete", "status": "True"}], False),
        ([{"type": "Finished", "status": "False"}], False),
        ([{"type": "Complete", "status": "False"}, {"type": "Finished", "status": "True"}], True),
    ],
)
def test_only_finished_true_is_the_end(conditions: Any, *, finished: bool) -> None:
    assert is_finished({"conditions": conditions}) is finished


def failing(kind: OpKind, hook: HookKind, reason: Reason) -> Callable[[World], None]:
    def script(world: World) -> None:
        world.fail[kind] = report(hook, ok=False, reason=reason)

    return script


def losing_a_worker(world: World) -> None:
    for _ in range(12):
        world.step()
        world.finish_ops()
        world.move_workers()
    world.lose_worker(Reason.OOM_KILLED)


def suspended_and_resumed(world: World) -> None:
    losing_a_worker(world)
    world.patch_spec(suspend=True)
    world.settle()
    world.patch_spec(suspend=False)


def crashed(world: World) -> None:
    losing_a_worker(world)
    world.crash()


def deleted(world: World) -> None:
    losing_a_worker(world)
    world.delete()


SCRIPTS: dict[str, Callable[[World], None]] = {
    "all goes well": lambda _: None,
    "a worker is lost": losing_a_worker,
    "suspended": suspended_and_resumed,
    "crash": crashed,
    "cancelled": lambda world: world.patch_spec(cancel=True),
    "deleted": deleted,
    "spec changed": lambda world: world.patch_spec(queueName="q"),
    "profiler does not start": failing(
        OpKind.PROFILER_START, HookKind.PROFILER_START, Reason.PROFILER_START_FAILED
    ),
    "profiler does not stop": failing(
        OpKind.PROFILER_STOP, HookKind.PROFILER_STOP, Reason.PROFILER_STOP_FAILED
    ),
}


@pytest.mark.parametrize("name", SCRIPTS)
def test_the_crd_keeps_every_status_of_a_run_from_its_begin_to_its_end(name: str) -> None:
    goals = [{"metric": "request_throughput", "min": "1"}]
    world = World(manifest(trials={"count": 2}, goals=goals))
    world.document["status"] = {"operator": "tare-0"}
    SCRIPTS[name](world)
    statuses = 0
    for _ in range(200):
        if not (world.step() | world.finish_ops() | world.move_workers()):
            break
        assert_kept(world.status)
        statuses += 1
    assert world.finished
    assert statuses > 1


def test_the_crd_describes_no_field_that_nobody_writes() -> None:
    """But `target`, whose writer is not built yet."""
    written: set[str] = set()
    for script in SCRIPTS.values():
        endpoint = {**manifest()["spec"]["endpoint"], "resetKvCache": {"at": "Both"}}
        goals = [{"metric": "error_rate", "max": "1%"}]
        baseline = {"run": "before"}
        world = World(manifest(goals=goals, endpoint=endpoint, baseline=baseline))
        world.document["status"] = {"operator": "tare-0"}
        world.found = replace(world.found, reset=world.found.ready, profiler=world.found.ready)
        script(world)
        while world.step() | world.finish_ops() | world.move_workers():
            written |= paths(world.status)
    [cell] = cells(1, trials=3)
    trials = [measured(0, trial) for trial in range(3)]
    warm = replace(outcome_of(cell, trials, GOALS), cache=Reason.CONTAMINATED)
    written |= paths({"cells": [row(warm)]})
    unwritten = {path for path in described(SCHEMA) if not path.startswith("target")} - written
    assert unwritten == set()


def paths(value: Any, path: str = "") -> set[str]:
    """Paths of a document, `[]` for the items of its lists."""
    match value:
        case dict():
            below = {f"{path}.{key}".lstrip("."): item for key, item in value.items()}
            return below.keys() | set().union(*(paths(item, p) for p, item in below.items()))
        case list():
            return set().union(*(paths(item, f"{path}[]") for item in value))
        case _:
            return set()


def described(schema: Schema, path: str = "") -> set[str]:
    """The same of a schema."""
    below = {f"{path}.{key}".lstrip("."): child for key, child in schema.properties.items()}
    found = below.keys() | set().union(*(described(child, p) for p, child in below.items()))
    return found | (described(schema.items, f"{path}[]") if schema.items else set())


def assert_kept(status: dict[str, Any]) -> None:
    """The API server takes the status, prunes nothing of it, and we read back what we wrote."""
    stored = copy.deepcopy(status)
    assert prune(SCHEMA, stored) == []
    assert validate(SCHEMA, stored, None) == []
    assert missing(status, BenchmarkRunStatus.model_validate(status).document()) == []


def missing(written: Any, read: Any, path: str = "status") -> list[str]:
    """Paths of what was written and is not, or not so, in what was read."""
    match written:
        case dict():
            found = [
                missing(value, read.get(key) if isinstance(read, dict) else None, f"{path}.{key}")
                for key, value in written.items()
            ]
            return [entry for entries in found for entry in entries]
        case list():
            pairs = zip(written, read or [None] * len(written), strict=True)
            lists = [missing(*pair, f"{path}[{i}]") for i, pair in enumerate(pairs)]
            return [entry for entries in lists for entry in entries]
        case _:
            return [] if written == read else [f"{path}: {written!r} became {read!r}"]
