"""Single requests on disk, as lines of JSON.

The rows of a result are limited in number; the file holds everything about everyone, for research,
and only when an order names a folder. Lines are buffered, so that the disk is met once in
a thousand requests.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import orjson

from tare.worker.orders import OrderError

if TYPE_CHECKING:
    from tare.measure.messages import Identity
    from tare.worker.record import Record

__all__ = ["Journal"]

_BUFFER: Final = 1 << 20
_MOMENTS: Final = (
    "due",
    "sent",
    "first_event",
    "first_text",
    "first_output",
    "last_text",
    "closed",
)
_FACTS: Final = (
    "number",
    "entry",
    "asked_tokens",
    "status",
    "error_kind",
    "error_message",
    "http_status",
    "streamed",
    "finish_reason",
    "missing_done",
    "resent",
    "chunks",
    "prompt_tokens",
    "output_tokens",
    "token_source",
    "cached_tokens",
    "reasoning_tokens",
)


class Journal:
    """A file with one line of JSON for each request of one process.

    Moments are nanoseconds after the gate of their phase; what did not happen is missing.
    """

    def __init__(self, folder: str, worker: Identity) -> None:
        """Create the file.

        Raises:
            OrderError: it cannot be written.
        """
        name = f"c{worker.cell}-t{worker.trial}-a{worker.attempt}-w{worker.index}.jsonl"
        path = Path(folder) / name
        try:
            self._file = path.open("wb", buffering=_BUFFER)
        except OSError as error:
            raise OrderError(f"WorkOrder.artifacts: {path}: {error.strerror}") from error

    def add(self, phase: str, endpoint: str, record: Record, gate: int) -> None:
        """Write a request that has ended."""
        moments = {name: getattr(record, name) for name in _MOMENTS}
        facts = {name: getattr(record, name) for name in _FACTS}
        line: dict[str, Any] = {"phase": phase, "endpoint": endpoint}
        line |= {name: value for name, value in facts.items() if value is not None}
        line |= {name: moment - gate for name, moment in moments.items() if moment}
        line["gaps"] = record.gaps.tolist()
        self._file.write(orjson.dumps(line, option=orjson.OPT_APPEND_NEWLINE))

    def flush(self) -> None:
        """Have everything in the file that was written so far."""
        self._file.flush()

    def close(self) -> None:
        """Close the file."""
        self._file.close()
