"""The operator's settings, from its environment."""

from __future__ import annotations

import secrets
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from tare.manifests.job import WorkerImage
from tare.net.allowlist import AllowList

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["Settings", "SettingsError", "from_environment"]

_KEY_BYTES = 16
_MAX_PORT = 65535
_LONGEST_WATCH = 590


class SettingsError(ValueError):
    """A variable has a value that cannot be used; the message names both."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """What an operator process is told at its start."""

    host: str
    """Address on which inbox, health and metrics listen."""
    port: int
    worker: WorkerImage
    operator_key: bytes = field(repr=False)
    """Secret from which the runs' inbox tokens are derived."""
    allowed_targets: AllowList
    namespaces: tuple[str, ...] = ()
    """Namespaces to watch; empty for all."""
    watch_timeout: int = _LONGEST_WATCH
    """Seconds after which a watch of the API server is opened anew, at most."""


def from_environment(environment: Mapping[str, str]) -> Settings:
    """Read the settings.

    Raises:
        SettingsError: a variable is missing or has a bad value.
    """
    host, port = _listen(environment.get("TARE_OPERATOR_LISTEN", "0.0.0.0:8080"))
    inbox = environment.get("TARE_INBOX_URL")
    if not inbox:
        raise SettingsError(
            "TARE_INBOX_URL is not set: the URL by which workers reach this process"
        )
    namespaces = environment.get("TARE_NAMESPACES", "")
    try:
        allowed = AllowList.parse(environment.get("TARE_ALLOWED_TARGETS", ""))
    except ValueError as error:
        raise SettingsError(f"TARE_ALLOWED_TARGETS: {error}") from error
    return Settings(
        host=host,
        port=port,
        worker=WorkerImage(
            image=environment.get("TARE_WORKER_IMAGE", "localhost/tare-worker:dev"),
            inbox_url=inbox.rstrip("/"),
            pull_policy=environment.get("TARE_WORKER_PULL_POLICY", "IfNotPresent"),
        ),
        operator_key=_key(environment.get("TARE_OPERATOR_KEY_FILE")),
        allowed_targets=allowed,
        namespaces=tuple(filter(None, (part.strip() for part in namespaces.split(",")))),
        watch_timeout=_seconds("TARE_WATCH_TIMEOUT_SECONDS", environment, _LONGEST_WATCH),
    )


def _listen(text: str) -> tuple[str, int]:
    host, _, port = text.rpartition(":")
    if not host or not port.isdecimal() or int(port) > _MAX_PORT:
        raise SettingsError(f"TARE_OPERATOR_LISTEN: {text!r}; expected ADDRESS:PORT")
    return host.strip("[]"), int(port)


def _seconds(name: str, environment: Mapping[str, str], longest: int) -> int:
    """Read a time in whole seconds, `longest` when it is not set."""
    text = environment.get(name, str(longest))
    if not text.isdecimal() or not 1 <= int(text) <= longest:
        raise SettingsError(f"{name}: {text!r}; expected whole seconds from 1 to {longest}")
    return int(text)


def _key(path: str | None) -> bytes:
    """Read the operator key; without a file, workers of this process cannot outlive it."""
    if path is None:
        return secrets.token_bytes(32)
    try:
        key = Path(path).read_bytes()
    except OSError as error:
        raise SettingsError(f"TARE_OPERATOR_KEY_FILE: {path}: {error.strerror}") from error
    if len(key) < _KEY_BYTES:
        raise SettingsError(f"TARE_OPERATOR_KEY_FILE: {path}: {len(key)} bytes; 16 or more needed")
    return key
