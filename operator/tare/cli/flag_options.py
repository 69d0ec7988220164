"""The options of `tare run` and `tare profile` that build a manifest, and how their texts are read.

What a value may be is the manifest's matter (`cli.flags`); here are spellings alone.
"""

from __future__ import annotations

import re
from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar, get_args

import click

from tare.api.dataset import CacheBust
from tare.api.endpoint import Endpoint
from tare.cli.flags import Flags

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from tare.api.fields import Model

__all__ = ["flag_options", "read_flags", "used_flags"]

F = TypeVar("F", bound="Callable[..., Any]")

_HEADER = re.compile(r"([A-Za-z0-9_-]+)\s*:\s*(\S.*)", re.DOTALL)
_CONTROL = re.compile(r"[\x00-\x1f\x7f]")


def _one_target(
    context: click.Context, parameter: click.Parameter, values: tuple[str, ...]
) -> str | None:
    """Take the only value: two targets would contradict each other, and the last must not win."""
    if len(values) > 1:
        message = f"{' and '.join(values)} are given; one run has one target, keep one of them"
        raise click.BadParameter(message, context, parameter)
    return values[0] if values else None


def _headers(
    context: click.Context, parameter: click.Parameter, values: tuple[str, ...]
) -> tuple[tuple[str, str], ...]:
    """Take `Name: value` apart. No message repeats the text: it may be a secret."""
    found = []
    for number, text in enumerate(values, start=1):
        match = _HEADER.fullmatch(text.strip())
        if match is None or _CONTROL.search(match[2]):
            message = (
                f"header {number} is not of the form 'Name: value', where a name has letters, "
                "digits, '-' and '_', and a value is one line"
            )
            raise click.BadParameter(message, context, parameter)
        found.append((match[1], match[2]))
    return tuple(found)


def _text_of(context: click.Context, parameter: click.Parameter, path: Path | None) -> str | None:
    """Read a file whole: what a user wrote word by word is sent so, its last line feed as well."""
    if path is None:
        return None
    try:
        return path.read_bytes().decode()
    except OSError as error:
        reason = error.strerror or error
        raise click.BadParameter(f"'{path}' cannot be read: {reason}", context, parameter) from None
    except UnicodeDecodeError as error:
        message = f"'{path}' is no UTF-8 text (byte {error.start})"
        raise click.BadParameter(message, context, parameter) from None


def _choices(model: type[Model], field: str) -> tuple[str, ...]:
    """Return what a field of the manifest may be."""
    return get_args(model.model_fields[field].annotation)


_TARGETS = _choices(CacheBust, "target")
_SECONDS: dict[str, Any] = {"type": float, "metavar": "SECONDS"}
_TOKENS: dict[str, Any] = {"type": int, "metavar": "TOKENS"}
_NUMBER: dict[str, Any] = {"type": int, "metavar": "N"}
_PATH: dict[str, Any] = {"metavar": "PATH"}
_TARGET = (
    click.option("--model", metavar="NAME", help="Name of the model as the server lists it."),
    click.option(
        "--endpoint-type",
        type=click.Choice(_choices(Endpoint, "type")),
        default="chat",
        show_default=True,
        help="API that requests use.",
    ),
    click.option(
        "--streaming",
        is_flag=True,
        help="Ask for streams; without one there is no time to the first token.",
    ),
    click.option(
        "--header",
        "headers",
        multiple=True,
        callback=_headers,
        metavar="'NAME: VALUE'",
        help="Send this header, hooks included; its value is kept in a Secret. May be repeated.",
    ),
)
_LOAD = (
    click.option(
        "--concurrency",
        **_NUMBER,
        help="Requests in flight; with --request-rate the most of them.  [default: 1]",
    ),
    click.option(
        "--request-rate", type=float, metavar="RATE", help="Poisson arrivals, requests per second."
    ),
    click.option("--request-count", **_NUMBER, help="Requests that are measured."),
    click.option(
        "--warmup-request-count",
        **_NUMBER,
        help="Warm up with so many requests; without a --warmup-… option there is no warm-up.",
    ),
    click.option("--warmup-num-sessions", **_NUMBER, help="Warm up with so many sessions."),
    click.option("--warmup-duration", **_SECONDS, help="Warm up for so long at most."),
)
_PROMPTS = (
    click.option("--isl", **_TOKENS, help="Tokens of a prompt.  [default: 512]"),
    click.option("--osl", **_TOKENS, help="Tokens of an answer.  [default: 128]"),
    click.option(
        "--cache-bust",
        type=click.Choice(_TARGETS),
        multiple=True,
        callback=_one_target,
        metavar="TARGET",
        help=f"Where a marker keeps the prefix cache from matching: {', '.join(_TARGETS)}.",
    ),
    click.option(
        "--shared-system-prompt-length", **_TOKENS, help="System prompt that all sessions share."
    ),
    click.option("--system-prompt", metavar="TEXT", help="System prompt, word by word."),
    click.option(
        "--system-prompt-file",
        type=click.Path(path_type=Path),
        callback=_text_of,
        metavar="FILE",
        help="The same, from a file.",
    ),
    click.option(
        "--user-context-prompt-length",
        **_TOKENS,
        help="Context of each session, in a message before its question.",
    ),
    click.option("--num-prefix-prompts", **_NUMBER, help="Prefixes that questions begin with."),
    click.option("--prefix-prompt-length", **_TOKENS, help="Length of each of them."),
)
_HOOKS = (
    click.option("--reset-kv-cache", is_flag=True, help="Empty the KV cache before the warm-up."),
    click.option("--reset-kv-cache-path", **_PATH, help="Where to; this turns the reset on."),
    click.option(
        "--reset-kv-cache-timeout-seconds",
        **_SECONDS,
        help="Limit of one POST; this turns the reset on.",
    ),
    click.option(
        "--server-profiler", is_flag=True, help="Run the server's profiler while profiling."
    ),
    click.option(
        "--server-profiler-start-path", **_PATH, help="Where to; this turns the profiler on."
    ),
    click.option(
        "--server-profiler-stop-path", **_PATH, help="Where to; this turns the profiler on."
    ),
    click.option(
        "--server-profiler-timeout-seconds",
        **_SECONDS,
        help="Limit of one POST; this turns the profiler on.",
    ),
)
_DRY_RUN = click.option(
    "--dry-run", is_flag=True, help="Print the manifest that the options build, and run nothing."
)


_ALL = (*_TARGET, *_LOAD, *_PROMPTS, *_HOOKS, _DRY_RUN)
_NEEDED = {"urls": "--url", "model": "--model", "request_count": "--request-count"}


def flag_options(command: F) -> F:
    """Give a command all of these options, in the order of its help."""
    for option in reversed(_ALL):
        command = option(command)
    return command


def read_flags(context: click.Context, given: Mapping[str, Any]) -> Flags:
    """Take from a command's options what describes the run.

    Raises:
        click.UsageError: an option that has no default is not given.
    """
    missing = [flag for field, flag in _NEEDED.items() if given[field] in (None, ())]
    if missing:
        message = f"{' and '.join(missing)} missing; without a manifest they say what to measure"
        raise click.UsageError(message, context)
    known = {field.name for field in fields(Flags)}
    return Flags(**{name: value for name, value in given.items() if name in known})


def used_flags(context: click.Context) -> list[str]:
    """Options on the command line that say what a manifest says, `--dry-run` among them."""
    known = {field.name for field in fields(Flags)} - {"urls"} | {"dry_run"}
    typed = click.core.ParameterSource.COMMANDLINE
    return [
        parameter.opts[0]
        for parameter in context.command.params
        if parameter.name in known and context.get_parameter_source(parameter.name) is typed
    ]
