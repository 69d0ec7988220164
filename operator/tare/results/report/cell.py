"""One cell of a report: how its latencies are distributed, its trials, what was done and failed."""

from __future__ import annotations

from collections import Counter
from statistics import quantiles
from typing import TYPE_CHECKING, Final

from tare.api.reasons import CellState
from tare.measure.counts import Count
from tare.measure.estimate import batch_means
from tare.measure.metrics import METRICS, PERCENTILES, SCALAR_STATISTIC, Kind
from tare.measure.profile import NANOSECONDS, Profile
from tare.measure.rows import read_rows
from tare.results.goals import goal_value
from tare.results.report.blocks import Badge, CellPart, Figure, Table, Tone
from tare.results.report.charts import Axis, Point, Series, line_chart
from tare.results.units import latency, number

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from tare.decide.outcome import CellOutcome
    from tare.measure.cell import CellSummary
    from tare.measure.rows import Row
    from tare.results.document import TrialDocument

__all__ = ["cell_part", "state_badge"]

_SHARES: Final = (*range(1, 99), 99, 99.5, 99.9, 100)
_DISTRIBUTIONS: Final = ("time_to_first_token", "request_latency")
_MOMENTS: Final = 40
"""Points of a line over time."""
_FEW_ROWS: Final = 5
"""Requests below which a moment has no middle to speak of."""
_MICROSECONDS: Final = 1e6


def cell_part(cell: CellOutcome, trials: Sequence[TrialDocument]) -> CellPart:
    """Lay out one cell and its trials, of which there may be none."""
    tables = [_trials(trials)] if trials else []
    tables += [_metrics(cell.summary)] if cell.summary else []
    tables += [table for table in (_hooks(trials), _errors(trials)) if table.rows]
    concerns = [concern.message for concern in cell.summary.concerns] if cell.summary else []
    return CellPart(
        anchor=f"cell-{cell.index}",
        name=cell.name or "all requests",
        badge=state_badge(cell),
        concerns=[*filter(None, [cell.message]), *concerns, *filter(None, [_cache_doubt(cell)])],
        figures=[figure for figure in (_spread(trials), _over_time(trials)) if figure.chart],
        tables=tables,
    )


def state_badge(cell: CellOutcome) -> Badge:
    """Say in one word what became of a cell."""
    tone: Tone = "good" if cell.state is CellState.MEASURED else "bad"
    if cell.state in {CellState.PENDING, CellState.SKIPPED}:
        tone = "unsure"
    return Badge(name="state", word=str(cell.state), tone=tone, message=cell.message)


def _cache_doubt(cell: CellOutcome) -> str:
    return cell.cache_message if cell.cache and cell.cache != "AsPlanned" else ""


def _spread(trials: Sequence[TrialDocument]) -> Figure:
    """Which share of the requests was as fast as that; all trials together."""
    profile = Profile.of([p for t in trials if t.record.summary for p in t.record.summary.phases])
    lines = []
    for metric in _DISTRIBUTIONS:
        histogram = profile.histograms.get(metric)
        if histogram is None or not histogram.count:
            continue
        points = []
        for share in _SHARES:
            value = histogram.percentile(share)
            assert value is not None
            points.append(Point(x=value / NANOSECONDS, y=share / 100))
        lines.append(Series(name=metric, points=points, dots=False))
    return Figure(
        title="Share of requests that were as fast",
        chart=line_chart(
            "Share of requests by latency",
            Axis(label="latency", text=latency, spread=True),
            Axis(label="", text=lambda share: f"{share:.0%}"),
            lines,
        ),
    )


def _over_time(trials: Sequence[TrialDocument]) -> Figure:
    """Median of the time to first token as the trial went on; what drifts was not steady."""
    lines = []
    for trial in trials:
        rows = [row for row in _rows(trial) if row.time_to_first_token is not None]
        points = list(_medians(rows))
        if len(points) > 1:
            lines.append(Series(name=f"trial {trial.record.trial}", points=points, dots=False))
    return Figure(
        title="Median time to first token over the phase",
        chart=line_chart(
            "Time to first token over time",
            Axis(label="seconds after the gate", text=number),
            Axis(label="", text=latency, spread=True),
            lines,
        ),
        note="A line that rises shows a queue, one that falls a cache that fills.",
    )


def _rows(trial: TrialDocument) -> Iterator[Row]:
    for phase in trial.record.summary.phases if trial.record.summary else ():
        if phase.kind == "profiling":
            yield from read_rows(phase.rows)


def _medians(rows: Sequence[Row]) -> Iterator[Point]:
    if not rows:
        return
    end = max(row.due for row in rows) + 1
    bins: list[list[int]] = [[] for _ in range(min(_MOMENTS, len(rows) // _FEW_ROWS) or 1)]
    for row in rows:
        assert row.time_to_first_token is not None
        bins[row.due * len(bins) // end].append(row.time_to_first_token)
    for number_, values in enumerate(bins):
        if len(values) >= _FEW_ROWS:
            middle = quantiles(values, n=2)[0] / _MICROSECONDS
            yield Point(x=(number_ + 0.5) * end / len(bins) / _MICROSECONDS, y=middle)


def _trials(trials: Sequence[TrialDocument]) -> Table:
    return Table(
        title="Trials",
        headings=(
            "trial",
            "ok / issued",
            "TTFT mean",
            "TTFT p50",
            "TTFT p99",
            "latency p99",
            "req/s",
            "reset",
            "cached tokens, planned and found",
            "start skew",
            "client's lag p99",
            "state",
        ),
        rows=[_trial_row(trial) for trial in trials],
        note="± of a mean within a trial is a 95 % confidence interval from batch means, since "
        "requests of one trial are not independent of each other. Percentiles have none.",
        tones=["good" if trial.record.state is CellState.MEASURED else "bad" for trial in trials],
    )


def _trial_row(trial: TrialDocument) -> Sequence[str]:
    record, summary = trial.record, trial.record.summary
    metrics = summary.metrics if summary else {}
    counts = summary.counts if summary else {}

    def value(metric: str, statistic: str = SCALAR_STATISTIC) -> str:
        found = metrics.get(metric, {}).get(statistic)
        return goal_value(metric, found)

    skew = max(trial.start_skew.values(), default=None)
    return (
        str(record.trial),
        f"{counts.get(Count.OK, 0):,}/{counts.get(Count.ISSUED, 0):,}",
        goal_value("time_to_first_token", *_mean_first(trial)),
        value("time_to_first_token", "p50"),
        value("time_to_first_token", "p99"),
        value("request_latency", "p99"),
        value("request_throughput"),
        record.reset,
        _cached(trial),
        latency(skew),
        latency(summary.client.event_loop_lag_p99 if summary else None),
        str(record.state) if record.state is CellState.MEASURED else record.reason,
    )


def _mean_first(trial: TrialDocument) -> tuple[float | None, float | None]:
    """The mean time to first token and how sure it is, as far as single requests were kept."""
    summary = trial.record.summary
    mean = summary.metrics.get("time_to_first_token", {}).get("mean") if summary else None
    rows = [row for row in _rows(trial) if row.outcome == "ok"]
    rows.sort(key=lambda row: row.due + (row.lag or 0))
    firsts = [row.time_to_first_token for row in rows if row.time_to_first_token is not None]
    estimate = batch_means([first / _MICROSECONDS for first in firsts])
    return mean, estimate.half_width() if estimate else None


def _cached(trial: TrialDocument) -> str:
    """The planned and the found cached tokens of the last phase, which is the measured one."""
    cache = trial.record.cache
    if cache is None or not cache.phases:
        return "-"
    phase = cache.phases[-1]
    planned = "?" if phase.low is None else f"{phase.low:,}"
    if phase.high is not None and phase.high != phase.low:
        planned += f" to {phase.high:,}"
    found = "not reported" if phase.found is None else f"{phase.found:,}"
    return f"{planned}: {found} ({cache.reason})"


def _metrics(summary: CellSummary) -> Table:
    columns = ("mean", *PERCENTILES, "max")
    rows = []
    for name, statistics in summary.metrics.items():
        shown = columns if METRICS[name].kind is Kind.DISTRIBUTION else (SCALAR_STATISTIC,)
        found = [statistics.get(column) if column in shown else None for column in columns]
        texts = [goal_value(name, f.mean, f.half_width) if f else "" for f in found]
        rows.append((name, *texts))
    return Table(
        title="All metrics",
        headings=("metric", *columns),
        rows=rows,
        note="Means over the trials"
        + (", ± the 95 % confidence interval" if summary.trials > 1 else "")
        + "; latencies are those of ok requests.",
    )


def _hooks(trials: Sequence[TrialDocument]) -> Table:
    """What was asked of the servers, added up over the trials."""
    calls = [call for trial in trials for call in trial.hooks]
    rows = []
    for hook, replica in dict.fromkeys((call.hook, call.replica) for call in calls):
        own = [call for call in calls if (call.hook, call.replica) == (hook, replica)]
        outcomes = Counter(call.outcome for call in own)
        slowest = max(call.seconds for call in own)
        good = sum(call.outcome.is_done for call in own)
        words = ", ".join(f"{count} {word}" for word, count in outcomes.items())
        rows.append((str(hook), replica, f"{good}/{len(own)}", latency(slowest), words))
    return Table(
        title="Control hooks",
        headings=("hook", "replica", "accepted", "slowest", "outcomes"),
        rows=rows,
    )


def _errors(trials: Sequence[TrialDocument]) -> Table:
    phases = [p for t in trials if t.record.summary for p in t.record.summary.phases]
    counts: Counter[tuple[str, str]] = Counter()
    samples: dict[tuple[str, str], str] = {}
    for phase in phases:
        for kind, count in phase.errors.items():
            counts[phase.name, kind] += count
            samples.setdefault((phase.name, kind), phase.error_samples.get(kind, ""))
    return Table(
        title="Failed requests",
        headings=("phase", "kind", "requests", "one of them"),
        rows=[
            (phase, kind, f"{count:,}", samples[phase, kind])
            for (phase, kind), count in counts.most_common()
        ],
    )
