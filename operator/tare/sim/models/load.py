"""Find and check the model of a server: a preset of this package, or a file.

A reference is a preset's name or the path of a YAML file, and may change some fields:

    board
    board@max_num_seqs=8
    ./my-server.yaml@kv_blocks=20000,cost.step=0.012

Times are seconds in these files and whole nanoseconds in the engine.
"""

from __future__ import annotations

import importlib
import math
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from tare.sim.core.costs import StepCost
from tare.sim.core.engine import Engine, EngineSettings
from tare.sim.core.schedulers import Scheduler, new_engine

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

__all__ = ["ServerModel", "ServerModelError", "load_server_model", "preset_names"]

_HERE: Final = Path(__file__).parent
_SUFFIXES: Final = (".yaml", ".yml")
_NS: Final = 1_000_000_000
_NO_BUDGET: Final = 1
"""Tokens of an iteration of a server that has none."""

_MISSING: Final = "server models need the extra 'sim': pip install 'tare-operator[sim]'"
_COUNT: Final = "a whole number of 1 or more"
_SECONDS: Final = "a number of seconds, 0 or more"
_FIELDS: Final = {
    "description": "a text",
    "source": "a text",
    "scheduler": " or ".join(Scheduler),
    "max_num_seqs": _COUNT,
    "max_num_batched_tokens": _COUNT,
    "block_size": _COUNT,
    "kv_blocks": _COUNT,
    "overhead": _SECONDS,
    "start": _SECONDS,
    "patience": "a number of seconds above 0",
    "cost": "an object of times",
}
_COSTS: Final = ("step", "sequence", "kv_token", "prefill", "attention", "token", "prompt_weight")
_REQUIRED: Final = ("scheduler", "max_num_seqs", "block_size", "kv_blocks", "cost")
_ONLY: Final = {
    "max_num_batched_tokens": "batching",
    "start": "slots",
    "patience": "slots",
    "cost.prompt_weight": "slots",
    "cost.kv_token": "batching",
    "cost.attention": "batching",
    "cost.token": "batching",
}
"""Fields that mean something for one scheduler only."""


class ServerModelError(ValueError):
    """A server model cannot be used; the message names the field, its value and what is allowed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerModel:
    """A checked model."""

    name: str
    """As it was referred to."""
    description: str
    scheduler: Scheduler
    settings: EngineSettings

    def new_engine(self) -> Engine:
        """Return an idle server with an empty cache."""
        return new_engine(self.scheduler, self.settings)


def preset_names() -> list[str]:
    """Return the names of the models in this package."""
    return sorted(path.stem for path in _HERE.glob("*.yaml"))


def load_server_model(reference: str) -> ServerModel:
    """Read the model that `reference` names and check it.

    Raises:
        ServerModelError: there is none, or it is no valid one.
    """
    place, _, changes = reference.partition("@")
    document = _document(place)
    for change in filter(None, changes.split(",")):
        _apply(reference, document, change)
    _check(reference, document)
    return ServerModel(
        name=reference,
        description=document.get("description", ""),
        scheduler=Scheduler(document["scheduler"]),
        settings=_settings(document),
    )


def _document(place: str) -> dict[str, Any]:
    yaml = _yaml()
    is_file = place.endswith(_SUFFIXES)
    path = Path(place) if is_file else _HERE / f"{place}.yaml"
    if not is_file and place not in preset_names():
        raise ServerModelError(
            f"there is no server model {place!r}; use {_listed(preset_names())}, or the path of a "
            f"YAML file{_hint(place, preset_names())}"
        )
    try:
        document = yaml.safe_load(path.read_text())
    except OSError as error:
        raise ServerModelError(f"{place}: cannot be read: {error.strerror or error}") from error
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise ServerModelError(f"{place}: no YAML: {' '.join(str(error).split())}") from error
    if not isinstance(document, dict):
        raise ServerModelError(f"{place}: no object; write fields such as {_listed(_REQUIRED)}")
    return document


def _yaml() -> Any:
    """Return the YAML library, which a server without models does without.

    Raises:
        ServerModelError: it is not installed.
    """
    try:
        return importlib.import_module("yaml")
    except ImportError:
        raise ServerModelError(_MISSING) from None


def _apply(reference: str, document: dict[str, Any], change: str) -> None:
    yaml = _yaml()
    field, equals, text = change.partition("=")
    if not equals:
        raise ServerModelError(f"{reference}: {change!r} is not of the form field=value")
    target: Any = document
    *steps, last = field.split(".")
    for step in steps:
        target = target.setdefault(step, {})
        if not isinstance(target, dict):
            raise ServerModelError(f"{reference}: {step} has no fields, so not {field}")
    try:
        target[last] = yaml.safe_load(text)
    except yaml.YAMLError:
        raise ServerModelError(f"{reference}: the value in {change!r} is no YAML") from None


def _check(reference: str, document: dict[str, Any]) -> None:
    for field in _REQUIRED:
        if field not in document:
            raise ServerModelError(f"{reference}: {field} is missing; give {_FIELDS[field]}")
    for field, value in document.items():
        if field not in _FIELDS:
            raise _unknown(reference, str(field), list(_FIELDS))
        if not _holds(field, value):
            raise _bad(reference, field, value, _FIELDS[field])
    _check_cost(reference, document["cost"])
    scheduler = document["scheduler"]
    for field in (*document, *(f"cost.{field}" for field in document["cost"])):
        if _ONLY.get(field, scheduler) != scheduler:
            raise ServerModelError(
                f"{reference}: {field} is for scheduler {_ONLY[field]}, and this one is "
                f"{scheduler}; remove it"
            )
    if scheduler == "batching" and "max_num_batched_tokens" not in document:
        raise ServerModelError(f"{reference}: max_num_batched_tokens is missing; give {_COUNT}")


def _check_cost(reference: str, cost: dict[str, Any]) -> None:
    """Check the times and make numbers of them."""
    for field, value in cost.items():
        if field not in _COSTS:
            raise _unknown(reference, f"cost.{field}", [f"cost.{name}" for name in _COSTS])
        cost[field] = number = _number(value)
        if number is None or number < 0:
            raise _bad(reference, f"cost.{field}", value, "a number, 0 or more")


def _holds(field: str, value: Any) -> bool:
    match _FIELDS[field]:
        case "a text":
            return isinstance(value, str)
        case allowed if allowed == _COUNT:
            return type(value) is int and value > 0
        case _ if field == "scheduler":
            return value in list(Scheduler)
        case _ if field == "cost":
            return isinstance(value, dict)
        case _:
            number = _number(value)
            return number is not None and (number > 0 or (number == 0 and field != "patience"))


def _settings(document: Mapping[str, Any]) -> EngineSettings:
    costs = dict.fromkeys(_COSTS, 0.0) | {k: v * _NS for k, v in document["cost"].items()}
    weight = costs.pop("prompt_weight") / _NS
    start = 0
    if document["scheduler"] == "slots":
        # The speed of a slot depends on how many there are, not on how many are taken.
        costs["step"] += costs.pop("sequence") * document["max_num_seqs"]
        costs["prefill"] += weight * costs["step"]
        start = round(_nanoseconds(document, "start") + costs["step"])
    patience = document.get("patience")
    return EngineSettings(
        block_size=document["block_size"],
        kv_blocks=document["kv_blocks"],
        max_num_seqs=document["max_num_seqs"],
        max_num_batched_tokens=document.get("max_num_batched_tokens", _NO_BUDGET),
        overhead_ns=round(_nanoseconds(document, "overhead")),
        start_ns=start,
        patience_ns=None if patience is None else round(_nanoseconds(document, "patience")),
        cost=StepCost(**costs),
    )


def _nanoseconds(document: Mapping[str, Any], field: str) -> float:
    return (_number(document.get(field, 0)) or 0.0) * _NS


def _number(value: Any) -> float | None:
    """Read a number; YAML takes 2e-5 without a point for a text."""
    if isinstance(value, bool):
        return None
    try:
        number = float(value)
    except (TypeError, ValueError):
        return None
    return number if math.isfinite(number) else None


def _bad(reference: str, field: str, value: Any, allowed: str) -> ServerModelError:
    return ServerModelError(f"{reference}: {field}: {value!r} is not allowed; give {allowed}")


def _unknown(reference: str, field: str, known: Sequence[str]) -> ServerModelError:
    hint = _hint(field, known)
    return ServerModelError(f"{reference}: {field}: unknown; allowed are {_listed(known)}{hint}")


def _listed(names: Sequence[str]) -> str:
    return ", ".join(names)


def _hint(word: str, words: Sequence[str]) -> str:
    close = get_close_matches(word, words, n=1)
    return f"; did you mean {close[0]}?" if close else ""
