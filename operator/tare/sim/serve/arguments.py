"""The command line of `tare sim serve`: its options, what they take, and the help."""

from __future__ import annotations

import argparse
import re
from argparse import BooleanOptionalAction
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Any

import orjson

from tare.sim.core.schedulers import Scheduler
from tare.sim.serve.faults import FaultError, Faults
from tare.sim.serve.faults import __doc__ as faults_help
from tare.telemetry.overriding import override

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["HIGHEST_PORT", "ServerStyle", "argument_parser", "of_server_model"]

HIGHEST_PORT = 65_535
_DURATION = re.compile(r"(\d+(?:\.\d+)?|\.\d+)(ns|us|ms|s|m)?")
_UNITS = {"ns": 1e-9, "us": 1e-6, "ms": 1e-3, "s": 1.0, "m": 60.0, None: 1.0}
_SIZES = (
    ("--max-num-seqs", 256, "requests that run at a time"),
    ("--max-num-batched-tokens", 2048, "tokens of one iteration"),
    ("--block-size", 32, "tokens a KV block"),
    ("--kv-blocks", 8192, "blocks in all"),
)
_TIMES = (
    ("--ttft-overhead", "20ms", "before a request reaches the engine"),
    ("--itl", "10ms", "an iteration; with slots, from token to token"),
    ("--sequence-time", "0s", "more for each request that decodes"),
    ("--kv-token-time", "0s", "more for each token of KV memory that the iteration reads"),
    ("--attention-time", "0s", "more for each prompt token and token before it"),
    ("--token-time", "0s", "an iteration takes at least this for each of its tokens"),
)

_DESCRIPTION = """\
Serve a simulated model with the API of vLLM: streaming chat and completions, a prefix cache that
requests share and that really shortens the time to first token, resets, profiler routes and
metrics, all without a GPU.

The engine batches continuously, as vLLM does. An iteration gives a token to each request that
decodes and up to --max-num-batched-tokens to prompts, and takes

  max(itl + sequence-time * decoding requests + kv-token-time * KV tokens
          + prompt tokens / prefill-rate + attention-time * attended pairs,
      token-time * all tokens)

A request whose prompt has no room in the KV memory waits, and all behind it; one that cannot grow
preempts the request admitted last. With --scheduler slots running requests do not slow each other:
the first token comes after prompt tokens / prefill-rate, then one each itl.
"""
_EPILOG = """\
admin routes, never guarded by --api-key:
  GET  /admin/counters         what really happened: requests, tokens, resets, profiler windows
  GET  /admin/requests?last=N  the last requests with prompts, cached tokens, arrival times
  POST /admin/reset_counters   set these counts to zero
  GET, POST /admin/faults      misbehave, see below

"""


class ServerStyle(StrEnum):
    """Whose control routes and metric names are imitated; the text routes are the same."""

    VLLM = "vllm"
    SGLANG = "sglang"


def of_server_model() -> tuple[str, ...]:
    """Return the options whose place a server model takes."""
    return ("--scheduler", "--prefill-rate", *(name for name, _, _ in (*_SIZES, *_TIMES)))


class _Help(argparse.ArgumentDefaultsHelpFormatter, argparse.RawDescriptionHelpFormatter):
    """Paragraphs as written, defaults beside each option that has one."""

    @override
    def _get_help_string(self, action: argparse.Action) -> str | None:
        return action.help if action.default is None else super()._get_help_string(action)


def argument_parser() -> argparse.ArgumentParser:
    """Return the parser; times are read as seconds."""
    parser = argparse.ArgumentParser(
        prog="tare sim serve",
        usage="%(prog)s [option ...]",
        description=_DESCRIPTION,
        epilog=f"{_EPILOG}faults:\n{faults_help}",
        formatter_class=_Help,
        allow_abbrev=False,
    )
    _add_address(parser)
    _add_engine(parser)
    _add_behaviour(parser)
    return parser


def _add_address(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("address and names")
    group.add_argument("--host", help="address to listen on (default: $POD_IP, else 127.0.0.1)")
    group.add_argument(
        "--port", type=_port, default=8000, metavar="N", help="0 lets the system choose"
    )
    group.add_argument(
        "--replicas",
        type=_positive(int),
        metavar="N",
        default=1,
        help="servers in this process, on ports from --port on, each with its own engine",
    )
    group.add_argument(
        "--model",
        action="append",
        metavar="NAME",
        help="served name, repeatable (default: tare-sim)",
    )
    group.add_argument("--api-key", metavar="KEY", help="asked for under /v1 only, as on vLLM")


def _add_engine(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("engine")
    group.add_argument(
        "--scheduler",
        choices=[scheduler.value for scheduler in Scheduler],
        default=Scheduler.BATCHING.value,
        help="how requests run beside each other",
    )
    group.add_argument(
        "--server-model",
        metavar="NAME",
        help="scheduler, sizes and times as `tare sim predict` has them: a preset or a YAML file",
    )
    group.add_argument(
        "--models-by-name",
        action="store_true",
        help="each --model is the name of a server model, as in board@max_num_seqs=8, and has an "
        "engine of its own",
    )
    group.add_argument(
        "--max-model-len",
        type=_positive(int),
        metavar="N",
        default=32_768,
        help="tokens of prompt and answer",
    )
    for name, default, text in _SIZES:
        group.add_argument(name, type=_positive(int), metavar="N", default=default, help=text)
    group.add_argument(
        "--tokenizer",
        type=Path,
        metavar="FOLDER",
        help="tokenizer.json and chat template of a real model, for its token counts "
        "(default: words as tokens); with --block-size its shared prefixes too",
    )
    group.add_argument("--seed", type=int, metavar="N", default=0, help="of texts and fault rates")
    _add_times(parser)


def _add_times(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("times of the engine, such as 20ms or 0.02")
    group.add_argument(
        "--prefill-rate",
        type=_positive(float),
        metavar="X",
        default=8000.0,
        help="uncached prompt tokens/s",
    )
    for name, default, text in _TIMES:
        group.add_argument(name, type=_duration, metavar="TIME", default=default, help=text)
    group.add_argument(
        "--time-scale",
        type=_positive(float),
        metavar="X",
        default=1.0,
        help="10 makes the engine 10 times faster",
    )


def _add_behaviour(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("behaviour")
    group.add_argument(
        "--server-style",
        choices=[style.value for style in ServerStyle],
        default=ServerStyle.VLLM.value,
        help="whose reset route, profiler answers and metric names",
    )
    group.add_argument(
        "--dev-mode",
        action=BooleanOptionalAction,
        default=True,
        help="offer /reset_prefix_cache, as VLLM_SERVER_DEV_MODE=1 does",
    )
    group.add_argument(
        "--profiler",
        action=BooleanOptionalAction,
        default=True,
        help="offer /start_profile and /stop_profile, as --profiler-config does",
    )
    group.add_argument(
        "--prompt-tokens-details",
        action=BooleanOptionalAction,
        default=True,
        help="tell cached tokens in usage, as --enable-prompt-tokens-details does",
    )
    group.add_argument(
        "--startup-delay",
        type=_duration,
        metavar="TIME",
        default="0s",
        help="connections are refused so long",
    )
    group.add_argument(
        "--log-requests",
        type=_count,
        metavar="N",
        default=1000,
        help="requests kept for /admin/requests",
    )
    group.add_argument(
        "--faults", type=_faults, default="{}", metavar="JSON", help="faults from the start"
    )


def _port(text: str) -> int:
    port = _count(text)
    if port > HIGHEST_PORT:
        raise argparse.ArgumentTypeError(f"{text!r} is no port: 0 to {HIGHEST_PORT}")
    return port


def _count(text: str) -> int:
    if not text.isdecimal():
        raise argparse.ArgumentTypeError(f"{text!r} is no whole number from 0")
    return int(text)


def _positive(kind: Callable[[str], float]) -> Callable[[str], Any]:
    def read(text: str) -> float:
        try:
            value = kind(text)
        except ValueError:
            value = 0
        if not 0 < value < float("inf"):
            name = "whole number" if kind is int else "number"
            raise argparse.ArgumentTypeError(f"{text!r} is no {name} above 0")
        return value

    return read


def _duration(text: str) -> float:
    """Return seconds."""
    match = _DURATION.fullmatch(text)
    if match is None:
        raise argparse.ArgumentTypeError(f"{text!r} is no time; write 20ms, 0.02s or 0.02")
    return float(match[1]) * _UNITS[match[2]]


def _faults(text: str) -> dict[str, Any]:
    try:
        document = orjson.loads(text)
        Faults().update(document, now_ns=0)
    except (orjson.JSONDecodeError, FaultError) as error:
        raise argparse.ArgumentTypeError(str(error)) from None
    return dict(document)
