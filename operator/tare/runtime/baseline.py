"""The baseline of a run: its copy at the start, the comparison at the end.

Both read all results of a run, which may be megabytes of requests. They are read, compared in a
thread and let go again; what stays in memory is a sentence.
"""

from __future__ import annotations

import asyncio
import logging
from dataclasses import replace
from typing import TYPE_CHECKING

from tare.api.problems import Problem
from tare.api.reasons import ConditionType, Reason
from tare.decide.conditions import Conditions
from tare.decide.facts import BaselineVerdict
from tare.kube.errors import NotFound
from tare.kube.port import RUN
from tare.measure.wire import WireError
from tare.results.archive import gather
from tare.results.baseline import BaselineError, needed_of, read_baseline, spare_memory
from tare.results.comparison import ComparisonError, compare_runs, explain

if TYPE_CHECKING:
    from tare.decide.acceptance import Accepted
    from tare.kube.port import Document
    from tare.manifests.metadata import Owner
    from tare.results.comparison import RunComparison
    from tare.results.document import RunResults
    from tare.runtime.context import Context

__all__ = ["compare_with_baseline", "copy_baseline"]

_LOG = logging.getLogger(__name__)
_WORDS = {True: Reason.REGRESSION, False: Reason.NOT_WORSE, None: Reason.NOT_CONCLUSIVE}


async def copy_baseline(
    context: Context, owner: Owner, accepted: Accepted, document: Document
) -> Problem | None:
    """Give the run its copy; what is wrong with the baseline when it cannot have one.

    A run that is accepted has its copy: whether the original is still there does not matter then.
    One that is being deleted needs none.

    Raises:
        KubeError: the API server refuses, or does not answer.
    """
    baseline = accepted.spec.baseline
    if baseline is None or "deletionTimestamp" in document["metadata"] or _is_accepted(document):
        return None
    if await context.store.has_baseline(owner):
        return None
    try:
        results = await read_baseline(context.cluster, owner, baseline.run)
    except BaselineError as error:
        return Problem(path="spec.baseline.run", value=baseline.run, message=str(error))
    await context.store.store_baseline(owner, needed_of(results, accepted.cells))
    return None


async def compare_with_baseline(
    context: Context, owner: Owner, accepted: Accepted
) -> BaselineVerdict:
    """Compare the stored results with the copy, and store what was found beside the summary.

    Raises:
        KubeError: the API server refuses, or does not answer.
    """
    assert accepted.spec.baseline is not None
    name = accepted.spec.baseline.run
    try:
        baseline = await context.store.load_baseline(owner)
    except WireError as error:
        return _open(
            Reason.BASELINE_MISSING, f"the copy of {name}'s results is unreadable: {error}"
        )
    if baseline is None:
        return _open(Reason.BASELINE_MISSING, f"the copy of {name}'s results is gone or damaged")
    results = await _own_results(context, owner, accepted)
    if results is None:
        return _open(Reason.CANCELLED, f"not compared with {name}: the run was deleted")
    try:
        found = await asyncio.to_thread(_compare, baseline, results)
    except ComparisonError as error:
        return _open(Reason.NOT_DECIDABLE, f"not compared with {name}: {error}")
    except Exception:  # noqa: BLE001 - a bug in the comparison must not lose the results
        _LOG.exception("no comparison of %s/%s with %s", owner.namespace, owner.name, name)
        text = f"the comparison with {name} could not be made; the operator's log says why"
        return _open(Reason.NOT_DECIDABLE, text)
    await _store(context, results, found)
    return BaselineVerdict(
        regression=found.regression, reason=_WORDS[found.regression], message=explain(found)
    )


async def _own_results(context: Context, owner: Owner, accepted: Accepted) -> RunResults | None:
    """Read what the run has stored; None when it, and with it that, is gone."""
    try:
        document = await context.cluster.get(RUN, owner.namespace, owner.name)
    except NotFound:
        return None
    return await gather(context.cluster, {**document, "spec": accepted.document})


def _compare(baseline: RunResults, results: RunResults) -> RunComparison:
    return compare_runs(*spare_memory(baseline, results))


async def _store(context: Context, results: RunResults, found: RunComparison) -> None:
    await context.store.store_summary(replace(results.summary, comparison=found))


def _open(reason: Reason, message: str) -> BaselineVerdict:
    return BaselineVerdict(regression=None, reason=reason, message=message)


def _is_accepted(document: Document) -> bool:
    conditions = (document.get("status") or {}).get("conditions") or ()
    return Conditions(conditions, now=0).is_true(ConditionType.ACCEPTED)
