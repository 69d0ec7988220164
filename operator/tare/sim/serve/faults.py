"""Misbehaviour on request: which answers of the server are to be wrong, how, and for how long.

A document like this is given at start (`--faults`) or by POST to `/admin/faults`:

    {"reset": 500}                                       every reset answers 500
    {"reset": {"answer": 503, "times": 2, "retry_after": 1}}   the next two do
    {"chat": {"answer": 503, "seconds": 5}}              no text for five seconds: not ready
    {"chat": {"answer": 500, "rate": 0.1}}               a tenth, drawn by --seed and replica
    {"reset": null}                                      reset behaves again

Points and their answers, beside any status from 400 to 599 and `hang` (no answer at all):
`reset`: `denied` (200 with success false), `silent` (says true and empties nothing), `empty` (200
without a body, as old servers), `lost` (does it and never answers). `start_profile` and
`stop_profile`: `lost`. `health`: no others. `chat` (both text routes): `abort` and `error_event`,
streams that end badly after their first token.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import Any

from tare.sim.core.streams import key_of, next_keyed
from tare.sim.serve.stream import BadEnd

__all__ = ["DENIED", "EMPTY", "HANG", "LOST", "SILENT", "Fault", "FaultError", "Faults"]

HANG = "hang"
LOST = "lost"
DENIED = "denied"
SILENT = "silent"
EMPTY = "empty"

_NS = 1_000_000_000
_WORDS: dict[str, tuple[str, ...]] = {
    "reset": (HANG, DENIED, SILENT, EMPTY, LOST),
    "start_profile": (HANG, LOST),
    "stop_profile": (HANG, LOST),
    "chat": (HANG, *BadEnd),
    "health": (HANG,),
}
_FIELDS = ("answer", "times", "seconds", "rate", "retry_after")
_LOWEST_STATUS, _HIGHEST_STATUS = 400, 599


class FaultError(ValueError):
    """A document of faults is wrong; the message says what is allowed."""


@dataclass(slots=True, kw_only=True)
class Fault:
    """One fault that is switched on."""

    answer: int | str
    times: int | None = None
    """So many answers are wrong; None for all."""
    seconds: float | None = None
    """So long after it was switched on; None for ever."""
    rate: float | None = None
    """This share of the answers is wrong; None for all."""
    retry_after: int | None = None
    """Sent as the `Retry-After` header with a status."""
    until_ns: int | None = None


class Faults:
    """The faults of one server; the same request never meets two of them."""

    def __init__(self, seed: int = 0, replica: int = 0) -> None:
        """`seed` and `replica` choose which answers are wrong where only a share of them is."""
        self._key = key_of(seed, replica)
        self._drawn = 0
        self._faults: dict[str, Fault] = {}
        self.served: Counter[str] = Counter()
        """How many answers were wrong, by point."""

    def update(self, document: object, now_ns: int) -> None:
        """Switch faults on, or off with null; points that are not named stay as they are.

        Raises:
            FaultError: nothing was changed.
        """
        if not isinstance(document, dict):
            raise FaultError(f"faults must be a JSON object, not {document!r}")
        read = {point: _read(point, value, now_ns) for point, value in document.items()}
        for point, fault in read.items():
            if fault is None:
                self._faults.pop(point, None)
            else:
                self._faults[point] = fault

    def take(self, point: str, now_ns: int) -> Fault | None:
        """Return the fault that this answer has to show, and count it."""
        fault = self._faults.get(point)
        if fault is None:
            return None
        if fault.times == 0 or (fault.until_ns is not None and now_ns >= fault.until_ns):
            del self._faults[point]
            return None
        if fault.rate is not None:
            self._drawn += 1
            if next_keyed(self._key, self._drawn) >= fault.rate:
                return None
        if fault.times is not None:
            fault.times -= 1
        self.served[point] += 1
        return fault

    def document(self) -> dict[str, dict[str, Any]]:
        """Return what is switched on, in the form that `update` takes."""
        return {
            point: {name: getattr(fault, name) for name in _FIELDS}
            for point, fault in self._faults.items()
        }


def _read(point: str, value: object, now_ns: int) -> Fault | None:
    if point not in _WORDS:
        raise FaultError(f"there is no fault {point!r}; choose from {', '.join(_WORDS)}")
    if value is None:
        return None
    fields = value if isinstance(value, dict) else {"answer": value}
    if unknown := sorted(fields.keys() - set(_FIELDS)):
        raise FaultError(f"{point}: unknown field {unknown[0]!r}; choose from {', '.join(_FIELDS)}")
    fault = Fault(answer=_answer(point, fields.get("answer")))
    fault.times = _number(point, "times", fields.get("times"))
    fault.retry_after = _number(point, "retry_after", fields.get("retry_after"))
    fault.rate = _share(point, fields.get("rate"))
    seconds = fields.get("seconds")
    if seconds is not None:
        if not isinstance(seconds, int | float) or seconds <= 0:
            raise FaultError(f"{point}.seconds: {seconds!r} is not a number above 0")
        fault.seconds = float(seconds)
        fault.until_ns = now_ns + round(seconds * _NS)
    return fault


def _answer(point: str, answer: object) -> int | str:
    if type(answer) is int and _LOWEST_STATUS <= answer <= _HIGHEST_STATUS:
        return answer
    if isinstance(answer, str) and answer in _WORDS[point]:
        return answer
    words = ", ".join(_WORDS[point])
    raise FaultError(f"{point}: {answer!r} is neither a status from 400 to 599 nor one of {words}")


def _share(point: str, value: object) -> float | None:
    if value is None:
        return None
    if isinstance(value, int | float) and type(value) is not bool and 0 < value <= 1:
        return float(value)
    raise FaultError(f"{point}.rate: {value!r} is not a number above 0 and up to 1")


def _number(point: str, name: str, value: object) -> int | None:
    if value is None or (type(value) is int and value > 0):
        return value
    raise FaultError(f"{point}.{name}: {value!r} is not a whole number above 0")
