"""`endpoint.resetKvCache` and `endpoint.serverProfiler`: what users write and what it means.

Both are `false | true | object`. The models hold what was written; `ResetKvCache` and
`ServerProfiler` are what the operator acts on, with every default filled in, among them the paths
that depend on the server. The defaults are those of reference "Benchmark Control Hooks".
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal

from pydantic import Discriminator, Field, Tag

from tare.api.fields import (
    ATOMIC,
    NO_VARIANT,
    DnsLabel,
    FreeForm,
    HookPath,
    LabelKey,
    LabelValue,
    Model,
    Rule,
    Seconds,
    Url,
    switch_tag,
)

__all__ = [
    "HookService",
    "HookTarget",
    "OnFailure",
    "ProfilerSetting",
    "ResetAt",
    "ResetKvCache",
    "ResetKvCacheOptions",
    "ResetSetting",
    "Server",
    "ServerProfiler",
    "ServerProfilerOptions",
    "path_rule",
    "resolve_profiler",
    "resolve_reset",
]

Server = Literal["vllm", "sglang", "trtllm", "dynamo", "generic"]
OnFailure = Literal["Fail", "Continue"]
ResetAt = Literal["CellStart", "BeforeProfiling", "Both"]

Port = Annotated[int, Field(ge=1, le=65_535)]


def _stays_on_host(path: str | None) -> bool:
    return path is None or "://" not in path


def path_rule(field: str, attribute: str) -> Rule:
    """Refuse `://`, which the pattern cannot: RE2 has no look-ahead."""
    return Rule(
        field=field,
        holds=lambda options: _stays_on_host(getattr(options, attribute)),
        message=f"{field} is a path on the model server: start it with '/' and leave out '://'",
    )


def _names_engines(target: HookTarget) -> bool:
    named = (target.service, target.selector, target.urls)
    count = sum(each is not None for each in named)
    return count == 1 or (count == 0 and target.ports is not None)


class HookService(Model):
    """A Service in the run's namespace."""

    name: DnsLabel
    """Name of the Service."""


class HookTarget(Model):
    """Where the calls go instead of to the replicas of the load's target.

    For engines behind a router, or data-parallel ranks with a port each: `ports` alone are ports of
    the pods that the load goes to.
    """

    RULES = (
        Rule(
            holds=_names_engines,
            message="name the engines by one of service, selector and urls, or give ports of the "
            "pods that the load goes to",
        ),
        Rule(
            field="ports",
            holds=lambda target: target.urls is None or target.ports is None,
            message="urls name their ports themselves; remove ports",
        ),
        Rule(
            field="ports",
            holds=lambda target: target.selector is None or target.ports is not None,
            message="a selector names pods without a port; add ports",
        ),
        Rule(
            field="ports",
            holds=lambda target: len(set(target.ports or ())) == len(target.ports or ()),
            message="every port stands once; remove the second one",
        ),
    )

    service: HookService | None = None
    """A Service whose pods are the engines."""
    selector: Annotated[dict[LabelKey, LabelValue], Field(min_length=1, max_length=16)] | None = (
        None
    )
    """Labels of the engines' pods."""
    urls: (
        Annotated[tuple[Url, ...], Field(min_length=1, max_length=64, json_schema_extra=ATOMIC)]
        | None
    ) = None
    """URLs of the engines."""
    ports: (
        Annotated[tuple[Port, ...], Field(min_length=1, max_length=16, json_schema_extra=ATOMIC)]
        | None
    ) = None
    """Ports of each pod; one call goes to each."""


class ResetKvCacheOptions(Model):
    """How to empty the server's KV cache before a cell."""

    RULES = (path_rule("path", "path"),)

    path: HookPath | None = None
    """Path to POST to; unset: /flush_cache for SGLang, /reset_prefix_cache for others."""
    timeout_seconds: Seconds | None = None
    """Limit of one POST; 30 when unset."""
    max_retry_seconds: Annotated[float, Field(ge=0, le=3600)] | None = None
    """How long a busy or unreachable server is tried again; 60 when unset, 0 tries once."""
    at: ResetAt = "CellStart"
    """When: before the warm-up, after it, or both."""
    reset_external: bool = False
    """Also empty the caches behind the server's KV connector (vLLM)."""
    target: HookTarget | None = None
    """Other servers than the replicas that the load goes to."""
    on_failure: OnFailure = "Fail"
    """Fail ends the cell; Continue measures it and says that its cache state is unverified."""


class ServerProfilerOptions(Model):
    """How to start and stop the server's profiler around profiling phases."""

    RULES = (
        path_rule("startPath", "start_path"),
        path_rule("stopPath", "stop_path"),
    )

    start_path: HookPath | None = None
    """Path to POST to before a profiling phase; /start_profile when unset."""
    stop_path: HookPath | None = None
    """Path to POST to after it; /stop_profile when unset."""
    timeout_seconds: Seconds | None = None
    """Limit of one POST; unset: 30 for a start and 300 for a stop."""
    stop_timeout_seconds: Seconds | None = None
    """Limit of a stop, which waits until the server has written its trace."""
    max_seconds: Seconds | None = None
    """Stop the profiler after this time at the latest."""
    max_iterations: Annotated[int, Field(ge=1, le=1_000_000)] | None = None
    """Engine steps that are recorded (vLLM: `max_iterations` in the body of the start)."""
    start_body: FreeForm | None = None
    """JSON body of the start; what it says goes before what Tare would write."""
    target: HookTarget | None = None
    """Other servers than the replicas that the load goes to."""


ResetSetting = Annotated[
    Annotated[bool, Tag("<switch>")] | Annotated[ResetKvCacheOptions, Tag("<object>")],
    Discriminator(
        switch_tag,
        custom_error_type=NO_VARIANT,
        custom_error_message="write true, false or an object with path, timeoutSeconds, …",
    ),
]
ProfilerSetting = Annotated[
    Annotated[bool, Tag("<switch>")] | Annotated[ServerProfilerOptions, Tag("<object>")],
    Discriminator(
        switch_tag,
        custom_error_type=NO_VARIANT,
        custom_error_message="write true, false or an object with startPath, stopPath, …",
    ),
]


@dataclass(frozen=True, slots=True, kw_only=True)
class ResetKvCache:
    """The reset as the operator carries it out."""

    path: str
    """With the query that empties the external cache too, where that is asked for."""
    timeout_seconds: float
    max_retry_seconds: float
    on_failure: OnFailure
    at: ResetAt = "CellStart"
    external: bool = False
    target: HookTarget | None = None

    @property
    def at_start(self) -> bool:
        """Before the first gate of a trial."""
        return self.at != "BeforeProfiling"

    @property
    def before_profiling(self) -> bool:
        """Before a profiling phase that a warm-up precedes, or that is the first of all."""
        return self.at != "CellStart"


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerProfiler:
    """The profiler as the operator drives it."""

    start_path: str
    stop_path: str
    timeout_seconds: float
    stop_timeout_seconds: float
    max_seconds: float | None = None
    target: HookTarget | None = None
    start_body: Mapping[str, Any] = field(default_factory=dict)
    """With `max_iterations` in it; nothing is sent when it is empty."""


_RESET_PATHS: dict[Server, str] = {"sglang": "/flush_cache"}
_RESET_PATH = "/reset_prefix_cache"
_EXTERNAL = "reset_external=true"
"""vLLM PR 27170: https://github.com/vllm-project/vllm/pull/27170"""
_START_PATH, _STOP_PATH = "/start_profile", "/stop_profile"
_TIMEOUT_SECONDS = 30.0
_MAX_RETRY_SECONDS = 60.0
_STOP_TIMEOUT_SECONDS = 300.0
"""A real vLLM took 105 s to write its trace after 20 requests."""


def resolve_reset(setting: bool | ResetKvCacheOptions, server: Server) -> ResetKvCache | None:
    """Fill in every default of `resetKvCache`; None when it is off."""
    if setting is False:
        return None
    options = ResetKvCacheOptions() if setting is True else setting
    path = options.path or _RESET_PATHS.get(server, _RESET_PATH)
    if options.reset_external and _EXTERNAL not in path:
        path += f"{'&' if '?' in path else '?'}{_EXTERNAL}"
    return ResetKvCache(
        path=path,
        timeout_seconds=options.timeout_seconds or _TIMEOUT_SECONDS,
        max_retry_seconds=_MAX_RETRY_SECONDS
        if options.max_retry_seconds is None
        else options.max_retry_seconds,
        on_failure=options.on_failure,
        at=options.at,
        external=_EXTERNAL in path,
        target=options.target,
    )


def resolve_profiler(setting: bool | ServerProfilerOptions) -> ServerProfiler | None:
    """Fill in every default of `serverProfiler`; None when it is off.

    An explicit `timeoutSeconds` counts for the stop as well, unless `stopTimeoutSeconds` is set.
    """
    if setting is False:
        return None
    options = ServerProfilerOptions() if setting is True else setting
    timeout = options.timeout_seconds
    steps = options.max_iterations
    limit = {} if steps is None else {"max_iterations": steps}
    return ServerProfiler(
        start_path=options.start_path or _START_PATH,
        stop_path=options.stop_path or _STOP_PATH,
        timeout_seconds=timeout or _TIMEOUT_SECONDS,
        stop_timeout_seconds=options.stop_timeout_seconds or timeout or _STOP_TIMEOUT_SECONDS,
        max_seconds=options.max_seconds,
        target=options.target,
        start_body={**limit, **(options.start_body or {})},
    )
