"""The work order: everything one worker is told, as plain JSON.

The operator writes it into the worker pod's environment, so `kubectl get job -o yaml` shows exactly
what was asked and a worker can load its dataset before it talks to anybody. It holds no secret:
a header whose value is secret names the environment variable that carries it.

The same order and seed give the same prompts, order and due times for any number of workers;
a worker derives its share from its index.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from tare.measure.rows import MOST_ROWS

__all__ = [
    "CacheBustOrder",
    "DatasetOrder",
    "HeaderOrder",
    "Lengths",
    "PhaseKind",
    "PhaseOrder",
    "RampOrder",
    "TargetOrder",
    "TlsOrder",
    "TurnsOrder",
    "WorkOrder",
]

PhaseKind = Literal["warmup", "profiling"]


@dataclass(frozen=True, slots=True, kw_only=True)
class HeaderOrder:
    """One request header: a literal `value`, or the environment variable `env` that holds it."""

    name: str
    value: str | None = None
    env: str | None = None
    prefix: str = ""
    """Written before the value, as `Bearer ` is before a key."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TlsOrder:
    """How the target's certificate is checked."""

    authority_env: str | None = None
    """Environment variable with the PEM of the only trusted authority; None for the system's."""
    verify: bool = True
    """False accepts any certificate."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TargetOrder:
    """Where and how to send requests."""

    urls: tuple[str, ...]
    """Base URLs without `/v1`; requests go to them in turn."""
    host: str | None = None
    """`Host` header when it differs from the URL's, as for a Service called by its address; the
    certificate is checked for this name then."""
    tls: TlsOrder | None = None
    """For https; None checks against the system's authorities."""
    model: str
    type: Literal["chat", "completions"] = "chat"
    streaming: bool = True
    headers: tuple[HeaderOrder, ...] = ()
    extra_body: Mapping[str, Any] = field(default_factory=dict)
    request_timeout: float = 600.0
    """Seconds from the first byte sent to the end of the answer."""
    idle_timeout: float = 60.0
    """Seconds without a token; comments and pings do not count."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Lengths:
    """A number of tokens: fixed, normal, uniform or weighted; drawn by prompt index and seed.

    Exactly one of `value`, `mean` (with `stddev`), `min` (with `max`) and `values` is given.
    """

    value: int | None = None
    mean: float | None = None
    stddev: float = 0.0
    min: int | None = None
    max: int | None = None
    values: tuple[int, ...] = ()
    weights: tuple[float, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class CacheBustOrder:
    """A marker in the prompts (`plan.markers`)."""

    target: Literal[
        "none",
        "system_prefix",
        "system_suffix",
        "first_turn_prefix",
        "first_turn_suffix",
        "warmup_isolation_system",
        "warmup_isolation_first_turn",
    ] = "none"
    scope: Literal["Trajectory", "TrajectoryAndPhase"] = "Trajectory"
    carrier: Literal["text", "salt"] = "text"


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnsOrder:
    """How many turns a session has, and the pause before each but the first."""

    mean: float = 1.0
    """Every session has this many; a fraction is drawn between the two whole numbers around it."""
    continue_probability: float | None = None
    """Chance of another turn after each, instead of `mean`."""
    delay: float = 0.0
    """Seconds from an answer's end to the next turn."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DatasetOrder:
    """A synthetic dataset: `entries` distinct prompts, or sessions, made from `seed`."""

    entries: int
    isl: Lengths
    """Input tokens of a turn's question."""
    osl: Lengths
    """Output tokens asked for, as `max_tokens`."""
    seed: int = 0
    shared_system: int | None = None
    """Tokens of a synthetic system prompt that all sessions share."""
    system_prompt: str | None = None
    """A system prompt, word by word; instead of `shared_system`."""
    user_context: int | None = None
    """Tokens of a user message of each session before its first question."""
    pool_size: int | None = None
    """Number of prefixes, one of which begins each session's first question."""
    pool_length: int | None = None
    """Tokens of each of them, on top of `isl`."""
    turns: TurnsOrder = TurnsOrder()
    cache_bust: CacheBustOrder = CacheBustOrder()

    @property
    def has_system(self) -> bool:
        """Whether its conversations begin with a system message."""
        return self.shared_system is not None or self.system_prompt is not None


@dataclass(frozen=True, slots=True, kw_only=True)
class RampOrder:
    """How a phase gets to its rate or its concurrency."""

    type: Literal["linear", "exponential"] = "linear"
    seconds: float
    """From the gate to the full value, which stays from then on."""
    start: float
    """Value at the gate; above 0 for an exponential ramp."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PhaseOrder:
    """One phase of load for all workers together; a worker takes its share."""

    name: str
    kind: PhaseKind
    type: Literal["concurrency", "constant", "poisson", "gamma", "sessions"]
    concurrency: int | None = None
    """Requests in flight, or open sessions (`sessions`), over all workers (closed loops)."""
    rate: float | None = None
    """Requests per second over all workers (open loop)."""
    max_concurrency: int | None = None
    """Upper bound of requests in flight over all workers in an open loop."""
    smoothness: float = 1.0
    """Shape of the gamma distribution of the gaps: their coefficient of variation is
    1 / sqrt(smoothness), so that 1 is a Poisson process and less is burstier."""
    ramp: RampOrder | None = None
    """How rate or concurrency begins; None for the full value from the gate on."""
    seed: int = 0
    """Fixes the random gaps, and which requests are cancelled."""
    requests: int | None = None
    """Stop after this many requests were sent, over all workers."""
    sessions: int | None = None
    """Stop after this many sessions, over all workers; of type `sessions` only."""
    duration: float | None = None
    """Stop sending after this many seconds."""
    grace: float = 30.0
    """Seconds after the last send in which answers are still awaited; then they are cancelled."""
    cancel_share: float = 0.0
    """Share of the requests, 0 to 1, that is cancelled on purpose."""
    cancel_after: float = 0.0
    """Seconds from the send of such a request to its cancellation."""
    seamless: bool = False
    """The next phase begins when every worker has sent this one, before the last answers."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkOrder:
    """What the workers of one attempt at one trial of one cell do."""

    run: str
    namespace: str
    run_uid: str
    cell: int
    trial: int
    attempt: int
    workers: int
    """Number of workers that share this order (`workers.replicas`)."""
    processes: int = 1
    """Processes in each worker; the order is shared by `workers * processes` of them."""
    target: TargetOrder
    dataset: DatasetOrder
    count_tokens: bool = False
    """Have the target's `/tokenize`, or the `tokenizers` package, say what a token is; otherwise,
    and where neither can, a word is taken for one."""
    phases: tuple[PhaseOrder, ...]
    rows: int = MOST_ROWS
    """Requests of which a row is kept in the result, over all workers and profiling phases."""
    artifacts: str | None = None
    """Folder of the worker in which each process writes its requests as lines of JSON."""
    goodput: Mapping[str, float] = field(default_factory=dict)
    """Metric name to the limit in seconds that a good request must meet."""

    def rows_of(self, phase: PhaseOrder) -> int:
        """Return of how many requests of one of its phases a row is kept: profiling shares them."""
        profiling = [each for each in self.phases if each.kind == "profiling"]
        return self.rows // len(profiling) if phase in profiling else 0
