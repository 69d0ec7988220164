"""A run in virtual time: every cell and trial in its order, on simulated servers.

What an operator would do around the load is done here too, as far as it changes numbers: trials
come in the order of the manifest, and without a reset a trial finds the caches as the one before
it left them.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from tare.api.reasons import CellState, Reason
from tare.cli.virtual_client import VirtualWorkers
from tare.decide.children import TrialKey
from tare.decide.outcome import cost_of, goals_of, outcome_of
from tare.decide.records import TrialRecord
from tare.manifests.order import Address, build_order
from tare.measure.trial import TrialSummary, summarize
from tare.plan.stretches import begins_profiling
from tare.plan.trials import schedule
from tare.results.document import SummaryDocument
from tare.results.summary import summarize_run
from tare.sim.models.load import (
    ServerModel,
    ServerModelError,
    load_server_model,
    preset_names,
)
from tare.sim.predict.clock import VirtualClock
from tare.sim.predict.service import Service
from tare.sim.predict.usage import PoolUsage

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from tare.api.spec import BenchmarkRunSpec
    from tare.decide.acceptance import Accepted
    from tare.decide.records import Cell
    from tare.manifests.metadata import Owner
    from tare.plan.order import WorkOrder

__all__ = ["CellForecast", "Forecast", "forecast"]

_Trial = tuple[TrialRecord, PoolUsage]


@dataclass(frozen=True, slots=True, kw_only=True)
class CellForecast:
    """What a prediction says of a cell beside its results."""

    index: int
    name: str
    server_model: str
    replicas: int
    pool: tuple[PoolUsage, ...]
    """Of each trial, with the manifest's own seed first."""
    trials: tuple[TrialSummary, ...]
    """The same trials."""

    @property
    def unstable(self) -> int:
        """Trials whose load the servers could not carry."""
        return sum(bool(usage.instability) for usage in self.pool)

    @property
    def reasons(self) -> tuple[str, ...]:
        """Why, each reason once."""
        found = (reason for usage in self.pool for reason in usage.instability)
        return tuple(dict.fromkeys(found))

    def range_of(self, metric: str, statistic: str) -> tuple[float, float] | None:
        """Return the smallest and the largest value over all trials; None without any."""
        values = [
            trial.metrics[metric][statistic]
            for trial in self.trials
            if statistic in trial.metrics.get(metric, {})
        ]
        return (min(values), max(values)) if values else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Forecast:
    """A predicted run."""

    summary: SummaryDocument
    """The results as a measurement would store them, with the manifest's own seed."""
    cells: tuple[CellForecast, ...]
    seeds: int


def forecast(
    accepted: Accepted,
    owner: Owner,
    *,
    server_model: str | None = None,
    replicas: int | None = None,
    seeds: int = 1,
    system_prompt: str | None = None,
) -> Forecast:
    """Predict a run.

    Args:
        accepted: the checked run.
        owner: its name, and a UID, from which markers follow.
        server_model: whom the load goes to (`sim.models`); unset, the model's name in each cell.
        replicas: of the service; unset, as many as the manifest says.
        seeds: repetitions of the whole run with other prompts and arrivals.
        system_prompt: what `systemPromptFrom` names.

    Raises:
        DatasetError: prompts cannot be made as ordered.
        ServerModelError: there is no such server model.
    """
    spec, cells = accepted.spec, accepted.cells
    goals = goals_of(spec)
    models = {cell.index: _model(cell.spec, server_model) for cell in cells}
    found: dict[int, list[_Trial]] = {cell.index: [] for cell in cells}
    for number in range(seeds):
        run = _Run(accepted, owner, models, replicas, system_prompt, number)
        for cell, trial in run.trials():
            found[cell.index].append(trial)
    outcomes = {}
    for cell in cells:
        records = [record for record, _ in found[cell.index][: spec.trials.count]]
        # Nobody verifies a cache that nobody can have touched.
        outcomes[cell.index] = replace(outcome_of(cell, records, goals), cache=None)
    return Forecast(
        summary=summarize_run(
            owner, model=spec.endpoint.model, cells=cells, outcomes=outcomes, goals=goals
        ),
        cells=tuple(
            _cell_forecast(
                cell, models[cell.index], _replicas(cell.spec, replicas), found[cell.index]
            )
            for cell in cells
        ),
        seeds=seeds,
    )


def _cell_forecast(
    cell: Cell, model: ServerModel, replicas: int, trials: Sequence[_Trial]
) -> CellForecast:
    return CellForecast(
        index=cell.index,
        name=cell.name,
        server_model=model.name,
        replicas=replicas,
        pool=tuple(usage for _, usage in trials),
        trials=tuple(record.summary for record, _ in trials if record.summary is not None),
    )


def _model(spec: BenchmarkRunSpec, given: str | None) -> ServerModel:
    """Load the server model of a cell.

    Raises:
        ServerModelError: there is none of that name, or it is no valid one.
    """
    if given is None and spec.endpoint.model.partition("@")[0] not in preset_names():
        raise ServerModelError(
            f"spec.endpoint.model: '{spec.endpoint.model}' is not the name of a server model; say "
            f"with --server-model what it runs on: {', '.join(preset_names())}, or a YAML file"
        )
    return load_server_model(given or spec.endpoint.model)


class _Run:
    """One repetition of the run, with one seed."""

    def __init__(
        self,
        accepted: Accepted,
        owner: Owner,
        models: Mapping[int, ServerModel],
        replicas: int | None,
        system_prompt: str | None,
        number: int,
    ) -> None:
        self._accepted = accepted
        self._owner = owner
        self._models = models
        self._replicas = replicas
        self._system_prompt = system_prompt
        self._number = number
        self._clock = VirtualClock()
        self._services: dict[tuple[str, int], Service] = {}

    def trials(self) -> Sequence[tuple[Cell, _Trial]]:
        """Run all trials in their order."""
        cells, trials = self._accepted.cells, self._accepted.spec.trials
        order = schedule(len(cells), trials.count, trials.order, self._accepted.spec.dataset.seed)
        return [(cells[cell], self._trial(cells[cell], trial)) for cell, trial in order]

    def _trial(self, cell: Cell, trial: int) -> _Trial:
        service, spec = self._service(cell), cell.spec
        order = self._order(cell, trial)
        workers = VirtualWorkers(order, service, self._clock)
        reset = spec.endpoint.reset
        kinds = [phase.kind for phase in order.phases]
        if reset is not None and reset.at_start:
            service.reset()
        for number, phase in enumerate(order.phases):
            if begins_profiling(kinds, number):
                if reset is not None and reset.before_profiling:
                    service.reset()
                if "profiling" not in kinds[:number]:
                    service.begin_watching()
            workers.run_phase(phase)
        usage = service.usage()
        summary = summarize(
            workers.results(), goodput=spec.goodput_seconds, cost=cost_of(spec)
        ).without_rows()
        return _record(cell, trial, summary), usage

    def _service(self, cell: Cell) -> Service:
        """Return the servers of a cell; cells with the same ones share them, caches included."""
        model, replicas = self._models[cell.index], _replicas(cell.spec, self._replicas)
        key = (model.name, replicas)
        if key not in self._services:
            self._services[key] = Service(model, replicas=replicas, clock=self._clock)
        return self._services[key]

    def _order(self, cell: Cell, trial: int) -> WorkOrder:
        order = build_order(
            self._owner,
            TrialKey(cell.index, trial, 1),
            cell.spec,
            address=Address(urls=("http://predicted",)),
            headers=(),
            system_prompt=self._system_prompt,
        )
        seed = order.dataset.seed + self._number
        return replace(
            order,
            dataset=replace(order.dataset, seed=seed),
            phases=tuple(replace(phase, seed=seed) for phase in order.phases),
            rows=0,
        )


def _record(cell: Cell, trial: int, summary: TrialSummary) -> TrialRecord:
    return TrialRecord(
        cell=cell.index,
        trial=trial,
        attempt=1,
        state=CellState.MEASURED,
        reason=Reason.AS_ASKED,
        message="",
        summary=summary,
    )


def _replicas(spec: BenchmarkRunSpec, given: int | None) -> int:
    if given is not None:
        return given
    urls = len(spec.endpoint.given_urls)
    return urls if urls > 1 else spec.cost.replicas if spec.cost is not None else 1
