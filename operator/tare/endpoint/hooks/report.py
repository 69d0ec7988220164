"""From the audit rows of all replicas to one report with one sentence for people."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from tare.api.reasons import Reason
from tare.measure.hooks import CallOutcome, HookCall, HookKind, HookReport, Replica

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

__all__ = ["blame", "nobody", "report_of"]

_NAMES = {
    HookKind.RESET: "KV cache reset",
    HookKind.PROFILER_START: "profiler start",
    HookKind.PROFILER_STOP: "profiler stop",
}
_REASONS = {
    HookKind.RESET: Reason.RESET_REFUSED,
    HookKind.PROFILER_START: Reason.PROFILER_START_FAILED,
    HookKind.PROFILER_STOP: Reason.PROFILER_STOP_FAILED,
}


def report_of(
    kind: HookKind, path: str, replicas: Sequence[Replica], rows: Sequence[Sequence[HookCall]]
) -> HookReport:
    """Judge a hook by the last row of each replica; `rows` are in the order of `replicas`."""
    last = [calls[-1] for calls in rows]
    failed = [row for row in last if not row.outcome.is_done]
    unverified = [row for row in last if row.outcome is CallOutcome.UNVERIFIED]
    return HookReport(
        hook=kind,
        ok=not failed,
        verified=all(row.outcome is CallOutcome.CONFIRMED for row in last),
        reason=_REASONS[kind] if failed else None,
        message=_sentence(kind, path, len(last), failed, unverified),
        replicas=tuple(replica.uid for replica in replicas),
        calls=tuple(row for calls in rows for row in calls),
    )


def nobody(kind: HookKind) -> HookReport:
    """Report a hook that had nobody to call: not done, since nothing says that it is."""
    return HookReport(
        hook=kind,
        ok=False,
        verified=False,
        reason=Reason.TARGET_NOT_READY,
        message=f"{_NAMES[kind]}: there is no ready replica to call",
        replicas=(),
        calls=(),
    )


def blame(report: HookReport, gone: Collection[str]) -> HookReport:
    """Judge a failed hook again, knowing the names of replicas whose pods are gone.

    A profiler ends with its pod, so only living replicas can have failed to stop. Any other hook
    failed since the set of replicas is another one now, which a repetition may mend.
    """
    last = {row.replica: row for row in report.calls if row.hook is report.hook}
    failed = [name for name, row in last.items() if not row.outcome.is_done]
    missing = [name for name in failed if name in gone]
    if not missing:
        return report
    message = f"{report.message}; gone meanwhile: {', '.join(missing)}"
    if report.hook is not HookKind.PROFILER_STOP:
        return replace(report, reason=Reason.REPLICAS_CHANGED, message=message)
    if len(missing) < len(failed):
        return replace(report, message=message)
    done = f"{len(last) - len(missing)} of {len(last)} replicas"
    text = f"{_NAMES[report.hook]} accepted by {done}; gone with their pods: {', '.join(missing)}"
    return replace(report, ok=True, reason=None, message=text)


def _sentence(
    kind: HookKind, path: str, total: int, failed: list[HookCall], unverified: list[HookCall]
) -> str:
    name = _NAMES[kind]
    if failed:
        first = failed[0]
        tries = f", {first.attempt} tries" if first.attempt > 1 else ""
        others = "".join(f", {row.replica}" for row in failed[1:])
        also = f" (also failed:{others[1:]})" if others else ""
        return (
            f"{name} failed on {len(failed)} of {total} replicas: {first.replica},"
            f" POST {first.origin}{path}{tries}: {first.message}{also}"
        )
    if unverified and kind is HookKind.RESET:
        names = ", ".join(row.replica for row in unverified)
        return f"{name} was accepted by {total} replicas, but not confirmed by {names}"
    how = "accepted" if unverified else "confirmed"
    return f"{name} {how} by {total} of {total} replicas"
