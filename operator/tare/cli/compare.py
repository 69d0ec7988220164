"""`tare compare`: does the candidate beat the baseline, and how sure is that?"""

from __future__ import annotations

from difflib import get_close_matches
from typing import TYPE_CHECKING, Any, Final

import click
import orjson
from rich.console import Console

from tare.cli.compare_tables import show_comparison
from tare.cli.exits import Exit
from tare.cli.ranges import FiniteRange
from tare.cli.session import complain, run_session
from tare.cli.source import SourceError, namespace_option, read_source
from tare.measure.metrics import METRICS, SCALAR_STATISTIC, Better, statistics_of
from tare.measure.side import Measure
from tare.results.comparison import TOLERANCE, ComparisonError, compare_runs
from tare.results.specs import ALLOWABLE
from tare.telemetry.overriding import override

if TYPE_CHECKING:
    from collections.abc import Collection

    from tare.results.comparison import RunComparison
    from tare.results.document import RunResults

__all__ = ["command"]

_EXITS: Final = """
\b
Exit codes:
  0 no regression, 4 regression, 5 not conclusive, 1 no cluster, 2 invalid
"""
_PERCENT: Final = 100


class _MeasureType(click.ParamType[Measure]):
    """METRIC[:STATISTIC]."""

    name = "METRIC[:STATISTIC]"

    @override
    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> Measure:
        """Refuse what cannot be compared, with what could have been meant."""
        metric, _, statistic = str(value).partition(":")
        if metric not in METRICS:
            close = get_close_matches(metric, METRICS, n=1)
            hint = f"did you mean '{close[0]}'?" if close else f"known are {', '.join(METRICS)}"
            self.fail(f"there is no metric '{metric}'; {hint}", param, ctx)
        if METRICS[metric].better is Better.NEITHER:
            message = f"{metric} describes the workload: more of it is neither better nor worse"
            self.fail(message, param, ctx)
        allowed = statistics_of(metric)
        if statistic and statistic not in allowed:
            message = f"{metric} has no statistic '{statistic}'; it has {', '.join(allowed)}"
            self.fail(message, param, ctx)
        return Measure(metric=metric, statistic=statistic or SCALAR_STATISTIC)


@click.command("compare", epilog=_EXITS)
@click.argument("baseline")
@click.argument("candidate")
@namespace_option
@click.option(
    "--metric",
    "measure",
    type=_MeasureType(),
    help="What decides. Without a statistic it is the mean; without this option the metric of the "
    "candidate's first goal, else time_to_first_token.",
)
@click.option(
    "--tolerance",
    type=FiniteRange(min=0),
    default=TOLERANCE * _PERCENT,
    show_default=True,
    metavar="PERCENT",
    help="Difference up to which the runs count as equal, in per cent of the baseline.",
)
@click.option(
    "--allow",
    "allowed",
    type=click.Choice(ALLOWABLE),
    multiple=True,
    help="Compare although this differs. May be repeated.",
)
@click.option(
    "--format",
    "form",
    type=click.Choice(["table", "json"]),
    default="table",
    show_default=True,
    help="Tables for people, or one JSON document.",
)
@click.pass_context
def command(
    context: click.Context,
    /,
    baseline: str,
    candidate: str,
    *,
    namespace: str | None,
    measure: Measure | None,
    tolerance: float,
    allowed: tuple[str, ...],
    form: str,
) -> None:
    """Compare the finished run CANDIDATE with the run BASELINE, cell by cell.

    A run is [NAMESPACE/]NAME of a BenchmarkRun in the cluster of KUBECONFIG, or a .json.gz file
    that `--export` wrote. Cells are the same when their overrides are. Runs of another workload,
    or with other success rates, answer lengths or caches, are not compared.
    """
    errors = Console(stderr=True)

    async def main() -> int:
        try:
            before = await read_source(baseline, namespace)
            after = await read_source(candidate, namespace)
            found = _compared(before, after, measure, tolerance, allowed)
        except (SourceError, ComparisonError) as error:
            complain(errors, error)
            return Exit.INVALID
        if form == "json":
            click.echo(orjson.dumps(found, option=orjson.OPT_INDENT_2))
        else:
            show_comparison(Console(), found)
        return _exit(found)

    context.exit(run_session(main(), errors))


def _compared(
    baseline: RunResults,
    candidate: RunResults,
    measure: Measure | None,
    tolerance: float,
    allowed: Collection[str],
) -> RunComparison:
    return compare_runs(
        baseline, candidate, measure=measure, tolerance=tolerance / _PERCENT, allowed=allowed
    )


def _exit(found: RunComparison) -> Exit:
    if found.regression is None:
        return Exit.NOT_CONCLUSIVE
    return Exit.REGRESSION if found.regression else Exit.OK
