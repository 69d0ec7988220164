"""From a run's stored status to its Prometheus series."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from tare.decide.rows import value_of
from tare.decide.stored import is_finished
from tare.measure.histogram import Histogram
from tare.telemetry.run_series import HEADLINES, LiveCell, RunName, RunState

if TYPE_CHECKING:
    from collections.abc import Iterable

    from tare.kube.port import Document
    from tare.manifests.metadata import Owner
    from tare.measure.messages import Progress
    from tare.telemetry.metrics import Metrics

__all__ = ["publish", "run_name", "show_live"]

_NANOSECONDS = 1e9


def run_name(owner: Owner) -> RunName:
    """Labels of the run's series."""
    return RunName(owner.namespace, owner.name)


def publish(metrics: Metrics, owner: Owner, document: Document) -> None:
    """Publish a run and its measured cells."""
    status, endpoint = document.get("status") or {}, document["spec"].get("endpoint") or {}
    conditions = {c["type"]: c["status"] for c in status.get("conditions") or ()}
    rows = status.get("cells") or ()
    metrics.update_run(
        run_name(owner),
        RunState(
            model=str(endpoint.get("model", "")),
            server=str(endpoint.get("server", "generic")),
            phase=status.get("phase", "Pending"),
            cells=Counter(row["state"] for row in rows),
            goals_met={"True": True, "False": False}.get(conditions.get("GoalsMet", "")),
            finished=is_finished(status),
        ),
    )
    for row in rows:
        if values := _headlines(row.get("metrics") or {}):
            metrics.publish_cell(run_name(owner), row["name"], values)


def show_live(
    metrics: Metrics, owner: Owner, *, cell: str, phase: str, reports: Iterable[Progress]
) -> None:
    """Show the phase that runs now, merged over its workers."""
    reports = list(reports)
    first_tokens = Histogram()
    for report in reports:
        if report.time_to_first_token:
            first_tokens.merge(Histogram.from_json(report.time_to_first_token))
    metrics.show_live(
        run_name(owner),
        LiveCell(
            cell=cell,
            phase=phase,
            in_flight=sum(report.in_flight for report in reports),
            issued=sum(report.issued for report in reports),
            ok=sum(report.ok for report in reports),
            failed=sum(report.failed for report in reports),
            ttft_p50=_seconds(first_tokens.percentile(50)),
            ttft_p99=_seconds(first_tokens.percentile(99)),
        ),
    )


def _headlines(values: dict[str, str]) -> dict[str, dict[str, float | None]]:
    found: dict[str, dict[str, float | None]] = {}
    for line in HEADLINES:
        plain = line.statistic == "mean"
        name = line.metric if plain else f"{line.metric}_{line.statistic}"
        if name in values:
            found.setdefault(line.metric, {})[line.statistic] = value_of(values[name])
    return found


def _seconds(nanoseconds: int | None) -> float | None:
    return None if nanoseconds is None else nanoseconds / _NANOSECONDS
