"""What control calls to the model service came to: audit rows and outcomes.

Pure values: `endpoint` fills them, `decide` reads them, results keep them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from tare.api.reasons import Reason

__all__ = [
    "CallOutcome",
    "HookCall",
    "HookKind",
    "HookReport",
    "PreflightReport",
    "Replica",
    "Replicas",
    "identity",
]


class HookKind(StrEnum):
    """The three hooks, and the prompt that proves the first of them."""

    RESET = "reset"
    CANARY = "canary"
    PROFILER_START = "profiler-start"
    PROFILER_STOP = "profiler-stop"


class CallOutcome(StrEnum):
    """How one POST to one replica ended."""

    CONFIRMED = "confirmed"
    """2xx and the body does not deny it; of a canary: it tells how much was cached."""
    UNVERIFIED = "unverified"
    """2xx with a body that says nothing either way."""
    BUSY = "busy"
    """The server asked to try again later."""
    REFUSED = "refused"
    """Any other answer."""
    UNREACHABLE = "unreachable"
    """No answer: connection refused, TLS error."""
    TIMEOUT = "timeout"

    @property
    def is_done(self) -> bool:
        """The server took the call, whether it confirmed that or not."""
        return self in (CallOutcome.CONFIRMED, CallOutcome.UNVERIFIED)


@dataclass(frozen=True, slots=True, kw_only=True)
class Replica:
    """One server behind the target: a pod's address, or an origin given by URL."""

    uid: str
    """Pod UID; for a URL its origin."""
    name: str
    """Pod name; for a URL its origin."""
    origin: str
    """`scheme://host:port` to POST to."""
    node: str = ""
    image: str = ""
    """Image of its first container, with its digest once it runs."""
    restarts: int | None = None
    """Of its containers together; None for a URL."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Replicas:
    """The replicas of a target at one moment."""

    ready: tuple[Replica, ...] = ()
    """`serving && !terminating`, addresses verified against pods that the Service selects."""
    terminating: tuple[str, ...] = ()
    """Names of pods that are going away and may still answer."""
    not_ready: tuple[str, ...] = ()
    service_url: str | None = None
    """Where the load goes: the Service's own address; None for URLs."""
    service_host: str | None = None
    """`name.namespace.svc[:port]`: Host header for calls by address."""
    reset: tuple[Replica, ...] | None = None
    """Servers that are reset instead, where the reset has a target of its own."""
    profiler: tuple[Replica, ...] | None = None
    """Servers that are profiled instead, where the profiler has a target of its own."""
    counts: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    """What each ready one tells of itself, by name (`measure.servers`), where they were asked."""

    @property
    def uids(self) -> tuple[str, ...]:
        """Sorted UIDs of the ready replicas: the identity of the set."""
        return tuple(sorted(replica.uid for replica in self.ready))

    @property
    def identity(self) -> tuple[tuple[str, ...], ...]:
        """Sorted UIDs of all that load and hooks are sent to; it stays the same over a trial."""
        return identity(self.ready, self.reset, self.profiler)


def identity(*sets: tuple[Replica, ...] | None) -> tuple[tuple[str, ...], ...]:
    """Return the sorted UIDs of each set; two looks saw the same servers when these are equal."""
    return tuple(tuple(sorted(replica.uid for replica in each or ())) for each in sets)


@dataclass(frozen=True, slots=True, kw_only=True)
class HookCall:
    """Audit row of one POST."""

    hook: HookKind
    replica: str
    """`Replica.name`."""
    origin: str
    attempt: int
    status: int | None
    seconds: float
    outcome: CallOutcome
    message: str = ""
    """The server's words or the error, at most 1 KiB, without secrets."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HookReport:
    """Outcome of a hook over all replicas."""

    hook: HookKind
    ok: bool
    verified: bool
    """Every replica's answer confirmed it (an empty body does not)."""
    reason: Reason | None
    """Why it failed, or what to warn of although it is `ok`."""
    message: str
    """One sentence for people: which replica, what it said, what to do."""
    replicas: tuple[str, ...]
    """UIDs on which the hook was tried."""
    calls: tuple[HookCall, ...]
    proven: bool = False
    """Of a reset: on every replica a prompt found its tokens before it and none after it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PreflightReport:
    """Whether the target is ready, serves the model and takes a request as the load sends it."""

    ok: bool
    reason: Reason | None
    message: str
    final: bool
    address: str = ""
    """Where the load goes."""
    """A failure that waiting cannot mend (unknown model, refused request, bad certificate)."""
    server_version: str = ""
