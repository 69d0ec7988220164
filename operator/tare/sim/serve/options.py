"""The options of `tare sim serve`: values, parsing, and the help that documents them."""

from __future__ import annotations

import argparse
import os
import re
from argparse import BooleanOptionalAction
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Any

import orjson

from tare.sim.engine import EngineSettings
from tare.sim.serve.faults import FaultError, Faults
from tare.sim.serve.faults import __doc__ as faults_help
from tare.telemetry.overriding import override

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

__all__ = ["Options", "ServerStyle", "parse_options"]

_NS = 1_000_000_000
_HIGHEST_PORT = 65_535
_DURATION = re.compile(r"(\d+(?:\.\d+)?|\.\d+)(us|ms|s|m)?")
_UNITS = {"us": 1e-6, "ms": 1e-3, "s": 1.0, "m": 60.0, None: 1.0}

_DESCRIPTION = """\
Serve a simulated model with the API of vLLM: streaming chat and completions, a prefix cache that
really shortens the time to first token, resets, profiler routes and metrics, all without a GPU.

time to first token = overhead + (prompt tokens - cached tokens) / prefill rate, then one token each
--itl. A request waits for one of --max-num-seqs slots and for KV blocks for its prompt and answer.
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """A checked command line."""

    host: str
    port: int
    """0 lets the system choose; the first line of output tells which."""
    models: tuple[str, ...]
    """Served names; the first one is the model's name in metrics."""
    engine: EngineSettings
    max_model_len: int
    api_key: str | None
    seed: int
    startup_delay: float
    """Seconds during which connections are refused."""
    dev_mode: bool
    profiler: bool
    prompt_tokens_details: bool
    server_style: ServerStyle
    log_requests: int
    faults: dict[str, Any]
    """Faults to switch on when the server is ready; checked."""


def parse_options(argv: Sequence[str], environ: Mapping[str, str] = os.environ) -> Options:
    """Read the command line; a mistake ends the program with one sentence and status 2."""
    parser = _parser()
    read = parser.parse_args(argv)
    if read.kv_blocks * read.block_size < read.max_model_len:
        parser.error(
            f"--kv-blocks {read.kv_blocks} of {read.block_size} tokens are too few for one request "
            f"of --max-model-len {read.max_model_len}; raise the one or lower the other"
        )
    return Options(
        host=read.host or environ.get("POD_IP") or "127.0.0.1",
        port=read.port,
        models=tuple(read.model or ["tare-sim"]),
        engine=EngineSettings(
            ttft_overhead_ns=round(read.ttft_overhead * _NS / read.time_scale),
            prefill_ns_per_token=_NS / (read.prefill_rate * read.time_scale),
            inter_token_ns=round(read.itl * _NS / read.time_scale),
            max_num_seqs=read.max_num_seqs,
            block_size=read.block_size,
            kv_blocks=read.kv_blocks,
        ),
        max_model_len=read.max_model_len,
        api_key=read.api_key,
        seed=read.seed,
        startup_delay=read.startup_delay,
        dev_mode=read.dev_mode,
        profiler=read.profiler,
        prompt_tokens_details=read.prompt_tokens_details,
        server_style=ServerStyle(read.server_style),
        log_requests=read.log_requests,
        faults=read.faults,
    )


class _Help(argparse.ArgumentDefaultsHelpFormatter, argparse.RawDescriptionHelpFormatter):
    """Paragraphs as written, defaults beside each option that has one."""

    @override
    def _get_help_string(self, action: argparse.Action) -> str | None:
        return action.help if action.default is None else super()._get_help_string(action)


def _parser() -> argparse.ArgumentParser:
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
        "--model",
        action="append",
        metavar="NAME",
        help="served name, repeatable (default: tare-sim)",
    )
    group.add_argument("--api-key", metavar="KEY", help="asked for under /v1 only, as on vLLM")


def _add_engine(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("engine (times such as 20ms or 0.02)")
    group.add_argument(
        "--ttft-overhead",
        type=_duration,
        metavar="TIME",
        default="20ms",
        help="before each prefill",
    )
    group.add_argument(
        "--prefill-rate",
        type=_positive(float),
        metavar="X",
        default=8000.0,
        help="uncached prompt tokens/s",
    )
    group.add_argument(
        "--itl", type=_duration, metavar="TIME", default="10ms", help="time from token to token"
    )
    group.add_argument(
        "--max-num-seqs",
        type=_positive(int),
        metavar="N",
        default=256,
        help="requests that run at a time",
    )
    group.add_argument(
        "--max-model-len",
        type=_positive(int),
        metavar="N",
        default=32_768,
        help="tokens of prompt and answer",
    )
    group.add_argument(
        "--block-size", type=_positive(int), metavar="N", default=32, help="tokens a KV block"
    )
    group.add_argument(
        "--kv-blocks", type=_positive(int), metavar="N", default=8192, help="blocks in all"
    )
    group.add_argument("--seed", type=int, metavar="N", default=0, help="of the generated text")
    group.add_argument(
        "--time-scale",
        type=_positive(float),
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
    if port > _HIGHEST_PORT:
        raise argparse.ArgumentTypeError(f"{text!r} is no port: 0 to {_HIGHEST_PORT}")
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
