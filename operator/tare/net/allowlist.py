"""Which addresses an operator may be sent to by the manifests of its tenants.

Who may create a BenchmarkRun could otherwise make the operator POST to anything that it can reach:
a cloud's metadata service, another team's model. The default allows nothing; a Service in the run's
own namespace needs no entry. Entries name what is written in the manifest: a CIDR matches addresses
only, never a name that happens to resolve into it, since names may resolve otherwise later.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network

from tare.net.origin import Origin, parse_origin

__all__ = ["AllowEntry", "AllowList", "AllowListError"]

Network = IPv4Network | IPv6Network
Address = IPv4Address | IPv6Address

_ENTRY = re.compile(
    r"(?:(?P<scheme>https?)://)?"
    r"(?P<host>\[[0-9a-fA-F:.]+(?:/\d+)?\]|[^\[\]/:]+(?:/\d+)?)"
    r"(?::(?P<first>\d+)(?:-(?P<last>\d+))?)?"
)
_NAME = re.compile(r"\*|(?:\*\.)?[a-z0-9_](?:[a-z0-9_.-]*[a-z0-9_])?")
_ANY_PORT = (1, 65_535)


class AllowListError(ValueError):
    """An entry cannot be read; the message names it and says what is allowed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AllowEntry:
    """One entry: hosts or addresses, perhaps only for a scheme and some ports."""

    scheme: str | None
    """None for both."""
    host: str | Network
    """A name, `*.` and a domain, `*`, or a network."""
    ports: tuple[int, int]
    """First and last."""

    def allows(self, origin: Origin) -> bool:
        """Whether the entry covers an origin."""
        first, last = self.ports
        return (
            self.scheme in (None, origin.scheme)
            and first <= origin.port <= last
            and self._covers(origin.host)
        )

    def _covers(self, host: str) -> bool:
        host = host.rstrip(".")
        if self.host == "*":
            return True
        addresses = _addresses(host)
        if not isinstance(self.host, str):
            return any(address in self.host for address in addresses)
        if self.host.startswith("*."):
            return not addresses and host.endswith(self.host[1:])
        return host == self.host


@dataclass(frozen=True, slots=True, kw_only=True)
class AllowList:
    """What is allowed; empty allows nothing."""

    entries: tuple[AllowEntry, ...] = ()

    @classmethod
    def parse(cls, text: str) -> AllowList:
        """Read entries that commas or blanks separate.

        An entry is `[scheme://]host[:port[-port]]`, where host is a name, `*.example.com`, an
        address, a CIDR, or `*`; IPv6 stands in brackets: `http://10.0.0.0/8:8000-8100`,
        `https://*.example.com`, `[fd00::/8]:8000`, `qwen.models.svc`. Without a scheme both are
        allowed, without a port all are.

        Raises:
            AllowListError: an entry cannot be read.
        """
        return cls(entries=tuple(map(_entry, filter(None, re.split(r"[,\s]+", text)))))

    @classmethod
    def everything(cls) -> AllowList:
        """Allow every target: for commands that run as their user, not for tenants."""
        return cls.parse("*")

    def allows(self, url: str) -> bool:
        """Whether a URL may be a target.

        Raises:
            BadUrlError: the text is no URL of a server.
        """
        origin = parse_origin(url)
        return any(entry.allows(origin) for entry in self.entries)

    def allows_service(self, name: str, namespace: str, port: int | str | None) -> bool:
        """Whether a Service in another namespace may be a target: by `name.namespace.svc`.

        A port that is not given by its number is only known later, so it needs an entry for all
        ports.
        """
        ports = (port, port) if isinstance(port, int) else _ANY_PORT
        host = f"{name}.{namespace}.svc"
        return any(
            all(entry.allows(Origin(scheme="http", host=host, port=each)) for each in ports)
            for entry in self.entries
        )


def _entry(text: str) -> AllowEntry:
    found = _ENTRY.fullmatch(text)
    if found is None:
        raise AllowListError(
            f"{text!r} is no target; write [http://]host[:port[-port]], where host is a name, "
            "*.domain, an address or a CIDR, IPv6 in brackets"
        )
    return AllowEntry(scheme=found["scheme"], host=_host(found["host"], text), ports=_ports(found))


def _host(written: str, text: str) -> str | Network:
    host = written.strip("[]").lower().rstrip(".")
    try:
        return ip_network(host)
    except ValueError as error:
        numeric = "/" in host or ":" in host or host.replace(".", "").isdecimal()
        if numeric or _NAME.fullmatch(host) is None:
            raise AllowListError(
                f"{text!r}: {host!r} is no host, address or CIDR: {error}"
            ) from error
    return host


def _ports(found: re.Match[str]) -> tuple[int, int]:
    if found["first"] is None:
        return _ANY_PORT
    first = int(found["first"])
    last = int(found["last"] or first)
    if not _ANY_PORT[0] <= first <= last <= _ANY_PORT[1]:
        raise AllowListError(f"{found[0]!r}: ports go from 1 to 65535, the smaller one first")
    return first, last


def _addresses(host: str) -> tuple[Address, ...]:
    """Read an address; an IPv4 address in IPv6 clothes is both. Empty for a name."""
    try:
        address = ip_address(host)
    except ValueError:
        return ()
    mapped = address.ipv4_mapped if isinstance(address, IPv6Address) else None
    return (address, mapped) if mapped else (address,)
