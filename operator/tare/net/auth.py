"""Headers and the TLS authority from the spec: where each value comes from, how it is written.

Hooks, preflight and load must send the same headers, or a reset is refused by a server that the
load may use. So there is one list of `Header`s: workers read the secret values from their
environment, the operator from Secrets, and both turn them into lines with `resolve`. Secret values
stay out of work orders, logs and messages; `redact` is for texts that came from outside.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

__all__ = [
    "BadHeaderError",
    "Header",
    "HeaderLike",
    "SecretKey",
    "authority_of",
    "env_entries",
    "headers_of",
    "redact",
    "resolve",
    "secret_entry",
]

_ENV_PREFIX = "TARE_HEADER_"
_SHORTEST_SECRET = 6
"""Characters; shorter values are words such as a team's name, and hiding them hides the message."""
_FIRST_PRINTABLE = " "
_DELETE = "\x7f"


class BadHeaderError(ValueError):
    """A header has no value, or one that HTTP cannot carry; the message does not hold the value."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SecretKey:
    """One key of a Secret in the run's namespace."""

    name: str
    key: str


class HeaderLike(Protocol):
    """What `resolve` needs; `Header` and `plan.order.HeaderOrder` have it."""

    @property
    def name(self) -> str:
        """Field name."""
        ...

    @property
    def value(self) -> str | None:
        """Literal value."""
        ...

    @property
    def env(self) -> str | None:
        """Name of the variable that holds the value."""
        ...

    @property
    def prefix(self) -> str:
        """Text before the value."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Header:
    """One request header: a literal `value`, or a `secret` that workers find in variable `env`."""

    name: str
    value: str | None = None
    secret: SecretKey | None = None
    env: str | None = None
    prefix: str = ""
    """Written before the value, as `Bearer ` is before a key."""


def headers_of(endpoint: Mapping[str, Any]) -> tuple[Header, ...]:
    """List the headers that a valid `spec.endpoint`, as JSON, asks for.

    The API key goes to `Authorization: Bearer …`, or bare to `apiKeyHeader`.
    """
    headers = []
    if key := endpoint.get("apiKeySecretRef"):
        bare = endpoint.get("apiKeyHeader")
        headers.append(_secret(bare or "Authorization", key, 0, "" if bare else "Bearer "))
    for position, entry in enumerate(endpoint.get("headers") or (), start=1):
        if source := entry.get("valueFrom"):
            headers.append(_secret(entry["name"], source["secretKeyRef"], position))
        else:
            headers.append(Header(name=entry["name"], value=entry["value"]))
    return tuple(headers)


def authority_of(endpoint: Mapping[str, Any]) -> SecretKey | None:
    """Return where a valid `spec.endpoint`, as JSON, has its authority; None for the system's."""
    reference = (endpoint.get("tls") or {}).get("caSecretRef")
    return SecretKey(name=reference["name"], key=reference["key"]) if reference else None


def env_entries(headers: Iterable[Header]) -> list[dict[str, Any]]:
    """Write the variables of a worker's container, so that the kubelet reads the Secrets."""
    return [
        secret_entry(header.env, header.secret)
        for header in headers
        if header.secret is not None and header.env is not None
    ]


def secret_entry(name: str, secret: SecretKey) -> dict[str, Any]:
    """Write a variable of a container whose value the kubelet reads from a Secret."""
    return {
        "name": name,
        "valueFrom": {"secretKeyRef": {"name": secret.name, "key": secret.key}},
    }


def resolve(headers: Iterable[HeaderLike], values: Mapping[str, str]) -> dict[str, str]:
    """Write out the headers; `values` maps variables to secret values (a worker's environment).

    White space around a value is dropped: a Secret made with `echo` ends in a line feed.

    Raises:
        BadHeaderError: a variable is missing, or a value is empty or holds control characters.
    """
    return {header.name: header.prefix + _value(header, values) for header in headers}


def redact(text: str, headers: Mapping[str, str]) -> str:
    """Hide header values in a text that a server or a library wrote."""
    for value in headers.values():
        for secret in (value, value.rpartition(" ")[2]):
            if len(secret) >= _SHORTEST_SECRET:
                text = text.replace(secret, "***")
    return text


def _secret(name: str, reference: Mapping[str, Any], position: int, prefix: str = "") -> Header:
    """Name the variable by position: no two header names can then share one."""
    return Header(
        name=name,
        secret=SecretKey(name=reference["name"], key=reference["key"]),
        env=f"{_ENV_PREFIX}{position}",
        prefix=prefix,
    )


def _value(header: HeaderLike, values: Mapping[str, str]) -> str:
    found = header.value if header.env is None else values.get(header.env)
    if found is None:
        raise BadHeaderError(
            f"header {header.name}: its value is missing ({header.env} is not set)"
        )
    value = found.strip()
    if not value:
        raise BadHeaderError(f"header {header.name}: its value is empty")
    if any(c < _FIRST_PRINTABLE or c == _DELETE for c in value):
        raise BadHeaderError(
            f"header {header.name}: its value holds a line break or another control character"
        )
    return value
