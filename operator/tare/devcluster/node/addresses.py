"""Addresses of one cluster inside 127.0.0.0/8: a /16 for its pods and the next for its Services.

The first cluster on a machine gets 127.0.x.y and 127.1.x.y, one that runs beside it the next
pair, so that tests in parallel do not meet on a port. A bound socket is the claim: it goes with
the process.
"""

from __future__ import annotations

import socket
from typing import Final

__all__ = ["Network"]

_PAIRS: Final = 120
_CLAIM_HOST: Final = "255.254"
_CLAIM_PORT: Final = 10250  # the kubelet's
_FIRST_POD: Final = 2  # 127.0.0.1 is the machine's own
_FIRST_SERVICE: Final = 1


class Network:
    """Hands out addresses, upwards and never twice."""

    def __init__(self, pair: int, claim: socket.socket) -> None:
        self._pair = pair
        self._claim = claim
        self._pods = _FIRST_POD
        self._services = _FIRST_SERVICE

    @classmethod
    def claim(cls) -> Network:
        """Take the lowest pair of ranges that no other cluster holds."""
        for pair in range(_PAIRS):
            claim = socket.socket()
            try:
                claim.bind((f"127.{2 * pair}.{_CLAIM_HOST}", _CLAIM_PORT))
            except OSError:
                claim.close()
            else:
                return cls(pair, claim)
        raise RuntimeError(f"{_PAIRS} clusters run on this machine: stop one")

    def release(self) -> None:
        """Let another cluster take the ranges."""
        self._claim.close()

    def next_pod(self) -> str:
        """Return the address of a new pod."""
        self._pods += 1
        return self._address(2 * self._pair, self._pods - 1)

    def next_service(self) -> str:
        """Return the cluster address of a new Service."""
        self._services += 1
        return self._address(2 * self._pair + 1, self._services - 1)

    @staticmethod
    def _address(second: int, number: int) -> str:
        return f"127.{second}.{number // 256}.{number % 256}"
