"""The options of `tare sim serve` as checked values; `arguments` has what they are called."""

from __future__ import annotations

import os
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tare.sim.core.costs import StepCost
from tare.sim.core.engine import EngineSettings
from tare.sim.core.schedulers import Scheduler
from tare.sim.serve.arguments import (
    HIGHEST_PORT,
    ServerStyle,
    argument_parser,
    of_server_model,
)

if TYPE_CHECKING:
    import argparse
    from collections.abc import Mapping, Sequence

__all__ = ["EngineChoice", "Options", "Scheduler", "ServerStyle", "parse_options"]

_NS = 1_000_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineChoice:
    """An engine, before it is made."""

    scheduler: Scheduler
    settings: EngineSettings


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """A checked command line."""

    host: str
    port: int
    """Of the first replica, the others have the next ones; 0 lets the system choose each. The
    first line of output tells which."""
    replicas: int
    """Servers in this process, each with its own port, engine and faults."""
    models: tuple[str, ...]
    """Served names; models that share an engine have the name of the first one in metrics."""
    engines: dict[str, EngineChoice]
    """By served name; the same one for all unless each model has its own."""
    max_model_len: int
    tokenizer: Path | None
    """Folder of a real model's tokenizer."""
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
    parser = argument_parser()
    read = parser.parse_args(argv)
    models = tuple(read.model or ["tare-sim"])
    engines = _engines(parser, read, models)
    last = read.port + read.replicas - 1
    if read.port and last > HIGHEST_PORT:
        parser.error(
            f"--replicas {read.replicas} from --port {read.port} on need ports up to {last}, and "
            f"the last one is {HIGHEST_PORT}; take a lower --port, or 0 for free ones"
        )
    return Options(
        host=read.host or environ.get("POD_IP") or "127.0.0.1",
        port=read.port,
        replicas=read.replicas,
        models=models,
        engines=engines,
        max_model_len=read.max_model_len,
        tokenizer=read.tokenizer,
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


def _engines(
    parser: argparse.ArgumentParser, read: argparse.Namespace, models: tuple[str, ...]
) -> dict[str, EngineChoice]:
    if read.models_by_name and read.server_model is not None:
        parser.error(
            "--models-by-name takes the server model from each --model; drop --server-model"
        )
    if read.models_by_name:
        return {name: _checked(parser, read, _from_model(parser, read, name)) for name in models}
    choice = (
        _from_options(read)
        if read.server_model is None
        else _from_model(parser, read, read.server_model)
    )
    return dict.fromkeys(models, _checked(parser, read, choice))


def _checked(
    parser: argparse.ArgumentParser, read: argparse.Namespace, choice: EngineChoice
) -> EngineChoice:
    """Return the choice in the time scale; an engine that is too small ends the program."""
    engine = choice.settings
    if engine.kv_blocks * engine.block_size < read.max_model_len:
        parser.error(
            f"{engine.kv_blocks} KV blocks of {engine.block_size} tokens are too few for one "
            f"request of --max-model-len {read.max_model_len}; raise --kv-blocks or lower the other"
        )
    return replace(choice, settings=_scaled(engine, read.time_scale))


def _from_options(read: argparse.Namespace) -> EngineChoice:
    settings = EngineSettings(
        block_size=read.block_size,
        kv_blocks=read.kv_blocks,
        max_num_seqs=read.max_num_seqs,
        max_num_batched_tokens=read.max_num_batched_tokens,
        overhead_ns=round(read.ttft_overhead * _NS),
        cost=StepCost(
            step=read.itl * _NS,
            sequence=read.sequence_time * _NS,
            kv_token=read.kv_token_time * _NS,
            prefill=_NS / read.prefill_rate,
            attention=read.attention_time * _NS,
            token=read.token_time * _NS,
        ),
    )
    return EngineChoice(scheduler=Scheduler(read.scheduler), settings=settings)


def _from_model(
    parser: argparse.ArgumentParser, read: argparse.Namespace, reference: str
) -> EngineChoice:
    from tare.sim.models.load import (  # noqa: PLC0415 - reads YAML, which a server needs only here
        ServerModelError,
        load_server_model,
    )

    usual = parser.parse_args([])
    for option in of_server_model():
        name = option.removeprefix("--").replace("-", "_")
        if getattr(read, name) != getattr(usual, name):
            parser.error(
                f"{option} is what the server model says already; change it there, as in "
                f"{reference}@max_num_seqs=8, or do without the model"
            )
    try:
        model = load_server_model(reference)
    except ServerModelError as error:
        parser.error(f"server model: {error}")
    except ImportError:
        parser.error("server models need the extra 'sim': pip install 'tare-operator[sim]'")
    return EngineChoice(scheduler=model.scheduler, settings=model.settings)


def _scaled(engine: EngineSettings, scale: float) -> EngineSettings:
    """Make every time of an engine `scale` times shorter."""
    cost, patience = engine.cost, engine.patience_ns
    return replace(
        engine,
        overhead_ns=round(engine.overhead_ns / scale),
        start_ns=round(engine.start_ns / scale),
        patience_ns=None if patience is None else round(patience / scale),
        cost=StepCost(**{field.name: getattr(cost, field.name) / scale for field in fields(cost)}),
    )
