"""From the flags of `tare run` and `tare profile` to a manifest; pure.

The flags are those of AIPerf's pages on control hooks and cache-bust targets, so that a command
line from there needs another name and nothing else. They build the manifest that a user could have
written, and the operator's own check judges it: a flag means what its field means. Values of
headers may be secrets, so all of them stand in a Secret beside the run.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from tare.api import names

if TYPE_CHECKING:
    from tare.kube.port import Document

__all__ = [
    "RUN_NAME",
    "SECRET_NAME",
    "WARMUP_FIELDS",
    "Flags",
    "build_run",
    "build_secret",
    "secret_key",
]

RUN_NAME = "from-flags"
SECRET_NAME = f"{RUN_NAME}-headers"
WARMUP_FIELDS = ("warmup_request_count", "warmup_num_sessions", "warmup_duration")
"""Flags that turn the warm-up on."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Flags:
    """A command line; None and empty mean that a flag was not given."""

    urls: tuple[str, ...]
    model: str
    request_count: int
    endpoint_type: str = "chat"
    streaming: bool = False
    concurrency: int | None = None
    request_rate: float | None = None
    warmup_request_count: int | None = None
    warmup_num_sessions: int | None = None
    warmup_duration: float | None = None
    isl: int | None = None
    osl: int | None = None
    cache_bust: str | None = None
    shared_system_prompt_length: int | None = None
    system_prompt: str | None = None
    system_prompt_file: str | None = None
    """The text of the file."""
    user_context_prompt_length: int | None = None
    num_prefix_prompts: int | None = None
    prefix_prompt_length: int | None = None
    reset_kv_cache: bool = False
    reset_kv_cache_path: str | None = None
    reset_kv_cache_timeout_seconds: float | None = None
    server_profiler: bool = False
    server_profiler_start_path: str | None = None
    server_profiler_stop_path: str | None = None
    server_profiler_timeout_seconds: float | None = None
    headers: tuple[tuple[str, str], ...] = field(default=(), repr=False)
    """Names and values; the values may be secrets."""

    @property
    def has_warmup(self) -> bool:
        """Whether any flag asks for a warm-up; without one there is none."""
        return any(getattr(self, name) is not None for name in WARMUP_FIELDS)


def build_run(flags: Flags) -> Document:
    """Write the manifest; what is not given is left to the defaults of the API."""
    spec = {"endpoint": _endpoint(flags), "dataset": _dataset(flags), "phases": _phases(flags)}
    return {
        "apiVersion": names.API_VERSION,
        "kind": names.KIND,
        "metadata": {"name": RUN_NAME},
        "spec": {key: value for key, value in spec.items() if value},
    }


def build_secret(flags: Flags) -> Document | None:
    """Write the Secret with the values of `--header`; None when there is none."""
    if not flags.headers:
        return None
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": SECRET_NAME, "namespace": "default"},
        "stringData": {secret_key(name): value for name, value in flags.headers},
    }


def secret_key(header: str) -> str:
    """Key of a header's value; header names are the same in upper and lower case."""
    return header.lower()


def _endpoint(flags: Flags) -> dict[str, Any]:
    targets = {"url": flags.urls[0]} if len(flags.urls) == 1 else {"urls": list(flags.urls)}
    endpoint: dict[str, Any] = {
        **targets,
        "model": flags.model,
        "type": flags.endpoint_type,
        "streaming": flags.streaming,
    }
    if flags.headers:
        endpoint["headers"] = [
            {
                "name": name,
                "valueFrom": {"secretKeyRef": {"name": SECRET_NAME, "key": secret_key(name)}},
            }
            for name, _ in flags.headers
        ]
    reset = _given(
        path=flags.reset_kv_cache_path, timeoutSeconds=flags.reset_kv_cache_timeout_seconds
    )
    profiler = _given(
        startPath=flags.server_profiler_start_path,
        stopPath=flags.server_profiler_stop_path,
        timeoutSeconds=flags.server_profiler_timeout_seconds,
    )
    if reset or flags.reset_kv_cache:
        endpoint["resetKvCache"] = reset or True
    if profiler or flags.server_profiler:
        endpoint["serverProfiler"] = profiler or True
    return endpoint


def _dataset(flags: Flags) -> dict[str, Any]:
    bust = {"target": flags.cache_bust} if flags.cache_bust is not None else None
    system = flags.system_prompt if flags.system_prompt_file is None else flags.system_prompt_file
    prefix = _given(
        sharedSystemLength=flags.shared_system_prompt_length,
        systemPrompt=system,
        userContextLength=flags.user_context_prompt_length,
        poolSize=flags.num_prefix_prompts,
        poolLength=flags.prefix_prompt_length,
    )
    prompts = _given(isl=flags.isl, osl=flags.osl, cacheBust=bust)
    return _given(prompts=prompts or None, prefixPrompts=prefix or None)


def _phases(flags: Flags) -> list[dict[str, Any]]:
    """Write the phases; a warm-up has the same load as profiling.

    A session of these flags has one turn, so that a number of sessions is one of requests.
    """
    if flags.request_rate is None:
        concurrency = 1 if flags.concurrency is None else flags.concurrency
        load = {"type": "concurrency", "concurrency": concurrency}
    else:
        bound = _given(maxConcurrency=flags.concurrency)
        load = {"type": "poisson", "rate": flags.request_rate, **bound}
    kinds = ("warmup", "profiling") if flags.has_warmup else ("profiling",)
    count = flags.warmup_request_count
    ends = {
        "warmup": _given(
            requests=flags.warmup_num_sessions if count is None else count,
            durationSeconds=flags.warmup_duration,
        ),
        "profiling": {"requests": flags.request_count},
    }
    return [{"name": kind, "kind": kind, **load, **ends[kind]} for kind in kinds]


def _given(**fields: Any) -> dict[str, Any]:
    return {name: value for name, value in fields.items() if value is not None}
