"""Logging for every role: lines for people on a terminal, JSON lines everywhere else.

Standard library only, since workers log too. Secrets are cut out by a filter on the handler, after
the message was put together and with tracebacks included, so that no caller has to remember it.
"""

from __future__ import annotations

import json
import logging
import os
import re
import sys
import time
from collections.abc import Mapping
from typing import TextIO

from tare.telemetry.overriding import override

__all__ = ["JsonLines", "PlainLines", "Redaction", "configure", "redact"]

_SECRET = re.compile(
    r"""(?ix)
    ( \b bearer \s+                                                     # Authorization: Bearer …
    | \b (?: x-api-key | api[-_]?key | token ) ["']? \s* [:=] \s* ["']? # x-api-key: …, "token": "…"
    )
    (?! \[redacted\] ) [^\s"',;}]+
    """
)
_FIELDS = ("namespace", "run", "cell", "trial", "attempt")
"""Context that callers give as `extra=`; JSON lines carry each as a field of its own."""


def redact(text: str) -> str:
    """Replace bearer tokens and API keys in `text` by `[redacted]`."""
    return _SECRET.sub(r"\1[redacted]", text)


class Redaction(logging.Filter):
    """Fold a record into its final text and redact that, tracebacks included."""

    @override
    def filter(self, record: logging.LogRecord) -> bool:
        """Let every record pass, without its secrets."""
        record.msg = redact(record.getMessage())
        record.args = None
        if record.exc_info and not record.exc_text:
            record.exc_text = logging.Formatter().formatException(record.exc_info)
        if record.exc_text:
            record.exc_text = redact(record.exc_text)
        return True


class PlainLines(logging.Formatter):
    """`12:30:59.123 WARNING tare.runtime.driver: bench/qwen: message`."""

    @override
    def format(self, record: logging.LogRecord) -> str:
        """Lay out one record; a traceback follows on lines of its own."""
        clock = time.strftime("%H:%M:%S", time.localtime(record.created))
        context = _context(record)
        where = f"{context['namespace']}/{context['run']}: " if "run" in context else ""
        line = (
            f"{clock}.{int(record.msecs):03d} {record.levelname:<7} {record.name}: "
            f"{where}{record.getMessage()}"
        )
        return f"{line}\n{record.exc_text}" if record.exc_text else line


class JsonLines(logging.Formatter):
    """One JSON object for each record, with the time in RFC 3339 and UTC."""

    @override
    def format(self, record: logging.LogRecord) -> str:
        """Lay out one record on one line, whatever its message holds."""
        stamp = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(record.created))
        document: dict[str, object] = {
            "time": f"{stamp}.{int(record.msecs):03d}Z",
            "level": record.levelname,
            "logger": record.name,
            "message": record.getMessage(),
            **_context(record),
        }
        if record.exc_text:
            document["traceback"] = record.exc_text
        return json.dumps(document, ensure_ascii=False, default=str)


def configure(
    level: str | None = None, *, stream: TextIO | None = None, json_lines: bool | None = None
) -> None:
    """Set up the root logger; calling it again replaces the earlier set-up.

    Args:
        level: name of a level; `TARE_LOG_LEVEL` when unset, then INFO.
        stream: where lines go; standard error when unset.
        json_lines: the format; decided by whether `stream` is a terminal when unset.

    Raises:
        ValueError: no such level.
    """
    stream = stream or sys.stderr
    chosen = (level or os.environ.get("TARE_LOG_LEVEL") or "INFO").upper()
    levels = logging.getLevelNamesMapping()
    if chosen not in levels:
        raise ValueError(f"log level {chosen!r}: use one of {', '.join(levels)}")
    handler = logging.StreamHandler(stream)
    use_json = not stream.isatty() if json_lines is None else json_lines
    handler.setFormatter(JsonLines() if use_json else PlainLines())
    handler.addFilter(Redaction())
    logging.basicConfig(level=levels[chosen], handlers=[handler], force=True)


def _context(record: logging.LogRecord) -> dict[str, object]:
    """Return what the record says of its run, from `extra=` or from Kopf's object reference."""
    context = {name: getattr(record, name) for name in _FIELDS if hasattr(record, name)}
    reference = getattr(record, "k8s_ref", None)
    if isinstance(reference, Mapping):
        context.setdefault("namespace", reference.get("namespace"))
        context.setdefault("run", reference.get("name"))
    if "run" in context:
        context.setdefault("namespace", "")
    return context
