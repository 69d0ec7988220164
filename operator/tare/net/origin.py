"""Origins and base URLs: which server a text names, spelled in exactly one way.

Hooks, preflight and the load all ask "is this the same server?", and an answer that differs
between them resets a server twice or measures another one. So a URL is taken apart here and
nowhere else. IPv6 literals keep their brackets in text and lose them in `host`.
"""

from __future__ import annotations

from dataclasses import dataclass
from urllib.parse import SplitResult, urlsplit

from tare.telemetry.overriding import override

__all__ = ["BadUrlError", "BaseUrl", "Origin", "parse_base_url", "parse_origin"]

_DEFAULT_PORTS = {"http": 80, "https": 443}
_MAX_PORT = 65535
_API_ROOT = "/v1"


class BadUrlError(ValueError):
    """A text is no URL of a server; the message says what is allowed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Origin:
    """Scheme, host and port: one server as far as the network is concerned (RFC 6454)."""

    scheme: str
    """`http` or `https`."""
    host: str
    """Lower case, an IPv6 literal without brackets."""
    port: int

    @override
    def __str__(self) -> str:
        """Spell it with the port always, so that equal origins are equal texts."""
        return f"{self.scheme}://{_bracketed(self.host)}:{self.port}"

    @property
    def authority(self) -> str:
        """Value of the `Host` header: the port only where it is not the scheme's own."""
        host = _bracketed(self.host)
        return host if self.port == _DEFAULT_PORTS[self.scheme] else f"{host}:{self.port}"


@dataclass(frozen=True, slots=True, kw_only=True)
class BaseUrl:
    """An origin and the path under which its API lies."""

    origin: Origin
    prefix: str = ""
    """Empty, or `/…` without a slash at the end."""

    def path(self, route: str) -> str:
        """Return the request path of `route`, which starts with a slash."""
        return self.prefix + route


def parse_origin(text: str) -> Origin:
    """Read the origin of a URL, whatever path it has.

    Raises:
        BadUrlError: no http(s) URL, no host, a port outside 1-65535, credentials in the URL.
    """
    return _origin(_split(text), text)


def parse_base_url(text: str) -> BaseUrl:
    """Read a base URL; users write it with and without `/v1` at its end, both mean the same.

    Raises:
        BadUrlError: as for `parse_origin`, and for a query or a fragment.
    """
    parts = _split(text)
    if parts.query or parts.fragment:
        raise BadUrlError(f"{text!r}: a base URL has no query and no fragment")
    prefix = parts.path.rstrip("/").removesuffix(_API_ROOT).rstrip("/")
    return BaseUrl(origin=_origin(parts, text), prefix=prefix)


def _bracketed(host: str) -> str:
    return f"[{host}]" if ":" in host else host


def _split(text: str) -> SplitResult:
    try:
        return urlsplit(text)
    except ValueError as error:
        raise BadUrlError(f"{text!r}: {error}") from error


def _origin(parts: SplitResult, text: str) -> Origin:
    if parts.scheme not in _DEFAULT_PORTS:
        raise BadUrlError(f"{text!r}: expected http://host[:port] or https://host[:port]")
    if "@" in parts.netloc:
        # The text itself is left out: it would carry the password into a log.
        raise BadUrlError("a URL must not hold a user or password; send them as a header")
    if parts.netloc.count(":") > 1 and not parts.netloc.startswith("["):
        raise BadUrlError(f"{text!r}: write an IPv6 address in brackets, as in http://[::1]:8000")
    if any(character <= " " for character in text):
        raise BadUrlError(f"{text!r}: a URL holds no spaces and no control characters")
    try:
        port = parts.port
    except ValueError:
        port = -1
    if port is None:
        port = _DEFAULT_PORTS[parts.scheme]
    if not 1 <= port <= _MAX_PORT:
        raise BadUrlError(f"{text!r}: the port must be a number from 1 to {_MAX_PORT}")
    if not parts.hostname:
        raise BadUrlError(f"{text!r}: the host is missing")
    return Origin(scheme=parts.scheme, host=parts.hostname, port=port)
