"""`spec` of a BenchmarkRun: the whole of it, with what spans its parts.

The models describe every field of the API, built or not: `api.unbuilt` refuses by name what this
version cannot do, so that the schema need not change when it can.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Annotated, Literal

from pydantic import Field

from tare.api import names
from tare.api.dataset import Dataset
from tare.api.endpoint import Endpoint  # noqa: TC001 - read by pydantic
from tare.api.fields import ATOMIC, MAX_INT32, DnsName, FreeForm, Model, QueueName, Rule
from tare.api.goals import Cost, Goal, Goodput, StopOn  # noqa: TC001 - read by pydantic
from tare.api.metrics import COST_METRICS, GOODPUT_RATES, NEEDS_STREAMING
from tare.api.phases import Phase  # noqa: TC001 - read by pydantic
from tare.api.prefixes import SYSTEM_FIELDS
from tare.api.sweep import Sweep, Trials
from tare.api.workers import Workers

__all__ = ["Baseline", "BenchmarkRunSpec"]


class Baseline(Model):
    """An earlier run that this one is compared with, when it has ended, as `tare compare` does."""

    run: DnsName
    """Name of a finished run in the same namespace. Its results are copied when this one starts."""


def _names(spec: BenchmarkRunSpec) -> list[str]:
    return [phase.name for phase in spec.phases]


def _resets_before_profiling(spec: BenchmarkRunSpec) -> bool:
    return spec.endpoint.reset is not None and spec.endpoint.reset.before_profiling


def _overlaps_profiling(spec: BenchmarkRunSpec) -> bool:
    """Whether profiling begins while answers of another phase are awaited."""
    return any(
        phase.seamless and phase.kind != "profiling" and following.kind == "profiling"
        for phase, following in pairwise(spec.phases)
    )


def _has_goal(spec: BenchmarkRunSpec, metrics: tuple[str, ...]) -> bool:
    return any(goal.metric in metrics for goal in spec.goals)


def _goal_in_cel(metrics: tuple[str, ...]) -> str:
    return f"(has(self.goals) && self.goals.exists(g, g.metric in {list(metrics)}))"


def _isolates(spec: BenchmarkRunSpec) -> bool:
    return spec.dataset.prompts.cache_bust.isolates_warmup


def _is_there(*path: str) -> str:
    """Write in CEL that a field is given, and every object around it."""
    steps = ["self", *path]
    return " && ".join(f"has({'.'.join(steps[:end])})" for end in range(2, len(steps) + 1))


_TARGET = ("dataset", "prompts", "cacheBust", "target")
_ISOLATES = (
    f"({_is_there(*_TARGET)} && self.{'.'.join(_TARGET)} in {list(names.ISOLATION_TARGETS)})"
)
_COMPLETIONS = "(has(self.endpoint.type) && self.endpoint.type == 'completions')"
_PREFIX = ("dataset", "prefixPrompts")
_MESSAGES = " || ".join(
    f"({_is_there(*_PREFIX, field)})" for field in (*SYSTEM_FIELDS, "userContextLength")
)
_TURNS = ("dataset", "turns")
_SEVERAL_TURNS = (
    f"(({_is_there(*_TURNS, 'mean')} && self.dataset.turns.mean > 1.0) || "
    f"({_is_there(*_TURNS, 'continueProbability')} && "
    "self.dataset.turns.continueProbability > 0.0))"
)


class BenchmarkRunSpec(Model):
    """What to measure. Frozen once the run has started, but for suspend, cancel and deadlines."""

    RULES = (
        Rule(
            field="phases",
            holds=lambda spec: any(phase.kind == "profiling" for phase in spec.phases),
            cel="self.phases.exists(p, p.kind == 'profiling')",
            message="no phase is measured; give at least one of them kind: profiling",
        ),
        Rule(
            field="phases",
            holds=lambda spec: len(set(_names(spec))) == len(spec.phases),
            cel="self.phases.all(p, self.phases.exists_one(q, q.name == p.name))",
            message="two phases have the same name; give each its own",
        ),
        Rule(
            field="phases",
            holds=lambda spec: not spec.phases[-1].seamless,
            cel="size(self.phases) == 0 || !has(self.phases[size(self.phases) - 1].seamless) || "
            "!self.phases[size(self.phases) - 1].seamless",
            message="the last phase is seamless, but no phase follows that could begin before its "
            "last answers; remove seamless there",
        ),
        Rule(
            field="phases",
            holds=lambda spec: not (_resets_before_profiling(spec) and _overlaps_profiling(spec)),
            message="a reset before profiling is sent when nothing is in flight, and a seamless "
            "phase right before profiling leaves its last answers in flight; remove seamless "
            "there, or use resetKvCache at: CellStart",
        ),
        Rule(
            field="phases",
            holds=lambda spec: (
                not _isolates(spec) or any(phase.kind == "warmup" for phase in spec.phases)
            ),
            cel=f"!{_ISOLATES} || self.phases.exists(p, p.kind == 'warmup')",
            message="cacheBust isolates a warm-up that is not there; add a phase of kind: warmup, "
            "or use target: none",
        ),
        Rule(
            field="phases",
            holds=lambda spec: (
                not _isolates(spec) or all(phase.type != "agenticReplay" for phase in spec.phases)
            ),
            cel=f"!{_ISOLATES} || !self.phases.exists(p, p.type == 'agenticReplay')",
            message="sessions of agenticReplay go on from warm-up to profiling, and would take the "
            "warm-up's marker along; use cacheBust target: none, system_* or first_turn_*",
        ),
        Rule(
            field="dataset",
            holds=lambda spec: (
                spec.endpoint.type != "completions"
                or not (spec.dataset.has_system or spec.dataset.has_context)
            ),
            cel=f"!{_COMPLETIONS} || !({_MESSAGES})",
            message="a completion has no messages for a system prompt or a user context; share a "
            "prefix by poolSize: 1 and poolLength, or use endpoint.type: chat",
        ),
        Rule(
            field="dataset",
            holds=lambda spec: spec.endpoint.type != "completions" or not spec.dataset.has_turns,
            cel=f"!{_COMPLETIONS} || !{_SEVERAL_TURNS}",
            message="a completion has one turn; remove turns, or use endpoint.type: chat",
        ),
        Rule(
            field="phases",
            holds=lambda spec: (
                not spec.dataset.has_turns or all(phase.type == "sessions" for phase in spec.phases)
            ),
            cel=f"!{_SEVERAL_TURNS} || self.phases.all(p, p.type == 'sessions')",
            message="the other turns of a session follow its answers; with dataset.turns "
            "every phase has type: sessions",
        ),
        Rule(
            field="dataset",
            holds=lambda spec: (
                spec.dataset.prompts.cache_bust.target == "none"
                or spec.dataset.prompts.cache_bust.carrier == "text"
                or "cache_salt" not in spec.endpoint.extra_body
            ),
            message="cacheBust carrier: salt writes cache_salt, which endpoint.extraBody sets too; "
            "remove one of the two",
        ),
        Rule(
            field="goals",
            holds=lambda spec: spec.cost is not None or not _has_goal(spec, COST_METRICS),
            cel=f"has(self.cost) || !{_goal_in_cel(COST_METRICS)}",
            message="a goal on a cost needs spec.cost; add usdPerHour there",
        ),
        Rule(
            field="goals",
            holds=lambda spec: spec.goodput is not None or not _has_goal(spec, GOODPUT_RATES),
            cel=f"has(self.goodput) || !{_goal_in_cel(GOODPUT_RATES)}",
            message="a goal on goodput or good_request_fraction needs spec.goodput; add its limits",
        ),
        Rule(
            field="goals",
            holds=lambda spec: spec.endpoint.streaming or not _has_goal(spec, NEEDS_STREAMING),
            cel="!has(self.endpoint.streaming) || self.endpoint.streaming || "
            f"!{_goal_in_cel(NEEDS_STREAMING)}",
            message="goals on single tokens need endpoint.streaming: true; without a stream "
            "nobody sees when a token came",
        ),
        Rule(
            field="cancel",
            cel="!has(oldSelf.cancel) || !oldSelf.cancel || (has(self.cancel) && self.cancel)",
            message="cancel cannot be taken back; create a new run",
        ),
    )

    endpoint: Endpoint
    """The model service."""
    dataset: Dataset = Dataset()
    """The prompts."""
    phases: Annotated[
        tuple[Phase, ...], Field(min_length=1, max_length=16, json_schema_extra=ATOMIC)
    ]
    """The load: phases that run one after the other."""
    sweep: Sweep | None = None
    """Variations of this spec; each is measured as a cell."""
    trials: Trials = Trials()
    """Repetitions of each cell."""
    goals: Annotated[tuple[Goal, ...], Field(max_length=32, json_schema_extra=ATOMIC)] = ()
    """Bounds that every cell is held against."""
    goodput: Goodput | None = None
    """Limits of a good request."""
    cost: Cost | None = None
    """What the model service costs."""
    baseline: Baseline | None = None
    """An earlier run that this one is compared with."""
    workers: Workers = Workers()
    """The pods that send the load."""
    queue_name: QueueName = ""
    """Kueue's LocalQueue; a label on each Job."""
    stop_on: StopOn | None = None
    """When a cell that only fails is given up."""
    suspend: bool = False
    """Pause: the cell under way is repeated when the run goes on. May be changed at any time."""
    cancel: bool = False
    """End the run and keep its results. May be set at any time, once."""
    on_cell_failure: Literal["Continue", "Stop"] = "Continue"
    """Whether the other cells are measured after one has failed."""
    active_deadline_seconds: Annotated[int, Field(ge=1, le=MAX_INT32)] | None = None
    """End the run this long after it got its target. May be changed at any time."""
    ttl_seconds_after_finished: Annotated[int, Field(ge=0, le=MAX_INT32)] | None = None
    """Delete the run this long after its end; unset keeps it. May be changed at any time."""
    artifacts: FreeForm | None = None
    """A volume for the records of single requests."""
    prediction: FreeForm | None = None
    """A simulated forecast beside each cell."""

    @property
    def goodput_seconds(self) -> dict[str, float]:
        """Metric name to the limit in seconds that a good request must meet; empty without any."""
        return self.goodput.limits if self.goodput is not None else {}
