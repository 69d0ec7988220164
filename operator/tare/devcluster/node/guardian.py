"""The guardian: a tiny process that kills the pods' processes when the cluster's process is gone.

It runs as a script of its own, outside the cluster's process group, and reads `+pgid` and `-pgid`
lines. The end of its input, which comes however the cluster died, SIGKILL included, is the order
to kill what is left. A parent-death signal would miss the processes that a container starts.
"""

from __future__ import annotations

import os
import signal
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = ["guard"]


def guard(orders: Iterable[str]) -> None:
    """Follow the orders to their end, then kill every group that is still there."""
    groups: set[int] = set()
    for order in orders:
        group = int(order[1:])
        if order.startswith("+"):
            groups.add(group)
        else:
            groups.discard(group)
    for group in groups:
        try:
            os.killpg(group, signal.SIGKILL)
        except ProcessLookupError:
            continue


if __name__ == "__main__":
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    guard(sys.stdin)
