"""Whether flags describe a run that may start, in words of the command line.

The operator's own check judges the manifest that they build; its problems are told with the flag
that filled the field. Flags that exclude each other are found here first.
"""

from __future__ import annotations

import math
import re
from typing import TYPE_CHECKING

import yaml

from tare.api import names
from tare.cli.flags import (
    SECRET_NAME,
    WARMUP_FIELDS,
    Flags,
    build_run,
    build_secret,
    secret_key,
)
from tare.cli.run_file import InvalidRunError, RunFile
from tare.decide.acceptance import Refused, accept
from tare.kube.port import SECRET
from tare.net.allowlist import AllowList

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tare.api.problems import Problem
    from tare.kube.port import Document

__all__ = ["load_flags", "show_manifest"]

_COUNT = "phases.warmup.requests"
_SYSTEM = "dataset.prefixPrompts.systemPrompt"
_FLAGS = {
    "endpoint.url": "--url",
    "endpoint.urls": "--url",
    "endpoint.model": "--model",
    "endpoint.headers": "--header",
    "endpoint.resetKvCache": "--reset-kv-cache",
    "endpoint.resetKvCache.path": "--reset-kv-cache-path",
    "endpoint.resetKvCache.timeoutSeconds": "--reset-kv-cache-timeout-seconds",
    "endpoint.serverProfiler": "--server-profiler",
    "endpoint.serverProfiler.startPath": "--server-profiler-start-path",
    "endpoint.serverProfiler.stopPath": "--server-profiler-stop-path",
    "endpoint.serverProfiler.timeoutSeconds": "--server-profiler-timeout-seconds",
    "dataset.prompts": "--isl",
    "dataset.prompts.osl": "--osl",
    "dataset.prefixPrompts": "--shared-system-prompt-length",
    _SYSTEM: "--system-prompt",
    "dataset.prefixPrompts.userContextLength": "--user-context-prompt-length",
    "dataset.prefixPrompts.poolSize": "--num-prefix-prompts",
    "dataset.prefixPrompts.poolLength": "--prefix-prompt-length",
    "phases.warmup.concurrency": "--concurrency",
    "phases.warmup.maxConcurrency": "--concurrency",
    "phases.warmup.rate": "--request-rate",
    _COUNT: "--warmup-request-count",
    "phases.warmup.durationSeconds": "--warmup-duration",
    "phases.profiling.concurrency": "--concurrency",
    "phases.profiling.maxConcurrency": "--concurrency",
    "phases.profiling.rate": "--request-rate",
    "phases.profiling.requests": "--request-count",
}
"""Which flag fills a field, or most of what is below it."""
_OTHER_FLAGS = {
    _COUNT: ("warmup_num_sessions", "--warmup-num-sessions"),
    _SYSTEM: ("system_prompt_file", "--system-prompt-file"),
}
"""Fields that a second flag may fill: its name in `Flags`, and on the command line."""
_INDEX = re.compile(r"\[(\d+)\]")
_FRACTIONS = (
    *("request_rate", "warmup_duration"),
    *("reset_kv_cache_timeout_seconds", "server_profiler_timeout_seconds"),
)
"""Flags that take fractions, and so might be no number at all."""


def load_flags(flags: Flags) -> RunFile:
    """Build what `tare run` executes, and check it as the operator would.

    Raises:
        InvalidRunError: flags exclude each other, or a value is refused; it names the flags.
    """
    if refused := (*_wrong_values(flags), *_conflicts(flags)):
        raise InvalidRunError("\n".join(refused))
    run = build_run(flags)
    outcome = accept(run, allow_targets=AllowList.everything())
    if isinstance(outcome, Refused):
        lines = (f"{_flag_of(p, flags, run)}: {p.message}" for p in outcome.problems)
        raise InvalidRunError("\n".join(dict.fromkeys(lines)))
    run["metadata"]["namespace"] = "default"
    secret = build_secret(flags)
    return RunFile(run=run, others=((SECRET, secret),) if secret else ())


def show_manifest(flags: Flags) -> tuple[str, str]:
    """Write the manifest as YAML, and how to create the Secret that it refers to, if it does.

    No value of a header is in either.

    Raises:
        InvalidRunError: as for `load_flags`.
    """
    load_flags(flags)
    run = build_run(flags)
    text = yaml.safe_dump(run, sort_keys=False, width=100)
    if not flags.headers:
        return text, ""
    literals = " ".join(f"--from-literal={secret_key(name)}='…'" for name, _ in flags.headers)
    advice = (
        f"The values of --header are not in the manifest. Create Secret {SECRET_NAME} in the run's "
        f"namespace before it, with each value in place of …:\n"
        f"  kubectl create secret generic {SECRET_NAME} {literals}"
    )
    return text, advice


def _wrong_values(flags: Flags) -> Iterator[str]:
    """Find values that the manifest has no words for."""
    for field in _FRACTIONS:
        value = getattr(flags, field)
        if value is not None and not math.isfinite(value):
            yield f"{_flag(field)}: {value} is no number of its own; write one, as 30"
    warmup = _join([_flag(field) for field in WARMUP_FIELDS])
    for field in WARMUP_FIELDS:
        value = getattr(flags, field)
        if value is not None and value <= 0:
            yield (
                f"{_flag(field)}: {value:g} is no warm-up; use a number above 0. To measure "
                f"without a warm-up, leave {warmup} out: then nothing comes between the reset and "
                "profiling"
            )


def _conflicts(flags: Flags) -> Iterator[str]:
    """Find flags that exclude or need each other, in words of the command line.

    The API has the same rules, in words of the manifest.
    """
    system = _used(flags, "shared_system_prompt_length", "system_prompt", "system_prompt_file")
    pool = _used(flags, "num_prefix_prompts", "prefix_prompt_length")
    others = [*system, *_used(flags, "user_context_prompt_length")]
    counts = _used(flags, "warmup_request_count", "warmup_num_sessions")
    if len(system) > 1:
        yield f"{_join(system)} fill the same system message; keep one of them"
    if len(pool) == 1:
        yield (
            f"{pool[0]}: a pool needs --num-prefix-prompts and --prefix-prompt-length, how many "
            "prefixes there are and how long each is; add the other one"
        )
    if pool and others:
        yield (
            f"{_join([*pool, *others])}: a pool of prefixes goes with no system prompt and no user "
            "context; keep one kind of prefix"
        )
    if others and flags.endpoint_type == "completions":
        yield (
            f"{_join(others)}: a completion has no messages to put this into; share a prefix by "
            "--num-prefix-prompts 1 and --prefix-prompt-length, or use --endpoint-type chat"
        )
    if len(counts) > 1:
        yield f"{_join(counts)} both say how long the warm-up is; keep one of them"
    if flags.cache_bust == "warmup_isolation_system" and not system:
        yield (
            "--cache-bust: warmup_isolation_system marks a system message, and these prompts have "
            "none; add --shared-system-prompt-length, --system-prompt or --system-prompt-file, or "
            "use warmup_isolation_first_turn"
        )
    if flags.cache_bust in names.ISOLATION_TARGETS and not flags.has_warmup:
        yield (
            f"--cache-bust: {flags.cache_bust} marks the warm-up, and there is none; add "
            "--warmup-request-count, or use another target"
        )


def _flag_of(problem: Problem, flags: Flags, run: Document) -> str:
    """Name the flag that fills a field, or what is above it; the field itself where none does."""
    path = problem.path.removeprefix("spec.")
    if path.startswith("phases[") and (index := _INDEX.search(path)):
        phase = run["spec"]["phases"][int(index[1])]["name"]
        path = path.replace(index[0], f".{phase}", 1)
    path = _INDEX.sub("", path)
    other, name = _OTHER_FLAGS.get(path, ("", ""))
    if other and getattr(flags, other) is not None:
        return name
    while path and path not in _FLAGS:
        path = path.rpartition(".")[0]
    return _FLAGS.get(path, problem.path)


def _used(flags: Flags, *fields: str) -> list[str]:
    return [_flag(field) for field in fields if getattr(flags, field) is not None]


def _flag(field: str) -> str:
    return f"--{field.replace('_', '-')}"


def _join(flags: list[str]) -> str:
    return " and ".join(filter(None, (", ".join(flags[:-1]), flags[-1])))
