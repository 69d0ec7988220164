"""What a run keeps of its baseline: the results of an earlier run, read once and cut to the need.

A copy outlives its original, so that the comparison at the end does not depend on what happens to
the earlier run meanwhile. It holds what a comparison reads: no audit rows, no counters, and only
the cells that both runs have.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from tare.api.reasons import CellState
from tare.decide.acceptance import Accepted, accept
from tare.decide.stored import is_finished
from tare.kube.errors import NotFound
from tare.kube.port import RUN
from tare.measure.rows import MOST_ROWS
from tare.measure.wire import WireError
from tare.net.allowlist import AllowList
from tare.results.archive import gather
from tare.results.comparison import cell_key

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

    from tare.decide.records import Cell
    from tare.kube.port import Cluster, Document
    from tare.manifests.metadata import Owner
    from tare.results.document import RunResults, TrialDocument

__all__ = ["MOST_PAIRED", "BaselineError", "needed_of", "read_baseline", "spare_memory"]

MOST_PAIRED: Final = 600_000
"""Requests of one cell in both runs together that the operator compares one by one.

Each takes 400 bytes meanwhile (measured), and the operator serves other runs from the same memory.
"""


class BaselineError(Exception):
    """A run cannot be another one's baseline; `str()` says why and what to do."""


async def read_baseline(cluster: Cluster, run: Owner, name: str) -> RunResults:
    """Read the results of the run `name`, in the namespace of `run`.

    Raises:
        BaselineError: there is no such run, it is `run` itself, or its results are not there, not
            whole, or not understood.
        KubeError: the API server refuses, or does not answer.
    """
    if name == run.name:
        raise BaselineError(f"'{name}' is this run itself; name an earlier one")
    try:
        document = await cluster.get(RUN, run.namespace, name)
    except NotFound as error:
        raise BaselineError(
            f"there is no BenchmarkRun '{name}' in namespace '{run.namespace}'; name a finished "
            "run that is there, or remove baseline and compare exported results with "
            "`tare compare`"
        ) from error
    try:
        results = await gather(cluster, document)
    except WireError as error:
        raise BaselineError(
            f"the results of '{name}' are of another version of Tare ({error}); measure it again"
        ) from error
    if results is None:
        raise BaselineError(_without_results(document))
    _check(results, name)
    return results


def needed_of(baseline: RunResults, cells: Iterable[Cell]) -> RunResults:
    """Leave out what a comparison with a run of these cells does not read."""
    wanted = {cell_key(cell.overrides) for cell in cells}
    status = baseline.run.get("status") or {}
    kept = {name: status[name] for name in ("phase", "target") if name in status}
    return replace(
        baseline,
        run={**baseline.run, "status": kept},
        summary=replace(baseline.summary, comparison=None),
        trials=tuple(
            replace(trial, hooks=(), replicas=(), servers=(), start_skew={})
            for trial in baseline.trials
            if cell_key(trial.overrides) in wanted
        ),
    )


def spare_memory(
    baseline: RunResults, candidate: RunResults, *, most: int = MOST_PAIRED
) -> tuple[RunResults, RunResults]:
    """Leave out the single requests of cells that have too many: those are compared by trial.

    So many requests are many trials, whose own interval is about as narrow.
    """
    counts: Counter[bytes] = Counter()
    for trial in (*baseline.trials, *candidate.trials):
        counts[cell_key(trial.overrides)] += _requests(trial)
    large = {key for key, count in counts.items() if count > most}
    return _without_rows(baseline, large), _without_rows(candidate, large)


def _requests(trial: TrialDocument) -> int:
    phases = trial.record.summary.phases if trial.record.summary is not None else ()
    issued = sum(phase.counts.get("issued", 0) for phase in phases if phase.rows)
    return min(issued, MOST_ROWS)


def _without_rows(results: RunResults, cells: Collection[bytes]) -> RunResults:
    return replace(
        results,
        trials=tuple(
            replace(t, record=replace(t.record, summary=t.record.summary.without_rows()))
            if t.record.summary is not None and cell_key(t.overrides) in cells
            else t
            for t in results.trials
        ),
    )


def _without_results(document: Document) -> str:
    metadata, status = document["metadata"], document.get("status") or {}
    name, phase = metadata["name"], status.get("phase", "Pending")
    if (status.get("results") or {}).get("summary"):
        return f"the results of '{name}' are damaged; measure it again, or name another run"
    if is_finished(status):
        return f"'{name}' has no results: it ended as {phase}; name a run that measured something"
    return (
        f"'{name}' has no results yet: its phase is {phase}; wait with `kubectl wait "
        f"--for=condition=Finished --namespace={metadata['namespace']} benchmarkrun/{name}`, then "
        "create this run again"
    )


def _check(results: RunResults, name: str) -> None:
    """Refuse what could not be compared whatever the other run measures."""
    accepted = accept(results.run, allow_targets=AllowList.everything())
    if not isinstance(accepted, Accepted):
        raise BaselineError(
            f"the spec of '{name}' is not understood by this version of Tare "
            f"({accepted.problems[0]}); measure it again"
        )
    measured = [cell for cell in results.summary.cells if cell.state is CellState.MEASURED]
    if not measured:
        raise BaselineError(f"'{name}' measured no cell; name a run that measured something")
    for cell in measured:
        found = sum(trial.record.cell == cell.index for trial in results.trials)
        if found < cell.trials_done:
            raise BaselineError(
                f"the results of '{name}' are damaged: of cell {cell.name} {found} of "
                f"{cell.trials_done} trials can be read; measure it again, or name another run"
            )
