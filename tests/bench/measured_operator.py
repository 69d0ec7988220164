"""What an operator process and its machine did, as the kernel and the process's metrics say."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from pathlib import Path

__all__ = ["Buckets", "Usage", "buckets", "quantile", "used"]

_TICKS = os.sysconf("SC_CLK_TCK")
_BUCKET = re.compile(r'^(\w+)_bucket\{le="([^"]+)"\} (\S+)$', re.MULTILINE)
_MEMORY = re.compile(r"^Vm(HWM|RSS):\s+(\d+) kB$", re.MULTILINE)

Buckets = list[tuple[float, float]]
"""Upper bounds and counts of a histogram, cumulative as Prometheus has them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Usage:
    """A process at one moment."""

    cpu_seconds: float
    """Its user and system time so far."""
    machine_seconds: float
    """The same of everything that runs on this machine."""
    memory: int
    """Bytes that are resident now."""
    peak: int
    """Bytes that were resident at most."""


def used(pid: int) -> Usage:
    """Read the process's counters (https://man7.org/linux/man-pages/man5/proc_pid_stat.5.html)."""
    # The command's name stands in parentheses and may hold blanks: fields count from behind it.
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    memory = dict(_MEMORY.findall(Path(f"/proc/{pid}/status").read_text()))
    machine = [int(ticks) for ticks in Path("/proc/stat").read_text().split(maxsplit=11)[1:11]]
    idle = machine[3] + machine[4]
    return Usage(
        cpu_seconds=(int(fields[11]) + int(fields[12])) / _TICKS,
        machine_seconds=(sum(machine[:8]) - idle) / _TICKS,
        memory=int(memory["RSS"]) * 1024,
        peak=int(memory["HWM"]) * 1024,
    )


def buckets(exposition: str, name: str) -> Buckets:
    """Read one histogram without labels out of a Prometheus exposition."""
    return [
        (float(bound), float(count))
        for metric, bound, count in _BUCKET.findall(exposition)
        if metric == name
    ]


def quantile(found: Buckets, share: float) -> float:
    """Estimate a quantile as PromQL does: linear within its bucket."""
    total = found[-1][1]
    lower, below = 0.0, 0.0
    for bound, count in found:
        if count >= share * total and count > below:
            if bound == float("inf"):
                return lower
            return lower + (bound - lower) * (share * total - below) / (count - below)
        lower, below = bound, count
    return lower
