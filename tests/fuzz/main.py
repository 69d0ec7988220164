"""Reads a great many answers and stops at the first one that breaks a rule.

    PYTHONPATH=tests .venv/bin/python -m fuzz.main --count 1000000 --seed 1

Case n has the seed `SEED:n`: the failing one is printed with its bytes and read again by
`--seed SEED --first n --count 1`. Exit code 1 when a rule is broken.
"""

from __future__ import annotations

import argparse
import sys
import time
from random import Random

from fuzz.check import check
from fuzz.streams import Case, make

_PROGRESS = 10.0
"""Seconds."""


def main() -> int:
    """Read as many answers as the command line asks for."""
    parser = argparse.ArgumentParser(prog="fuzz.main", description=__doc__)
    parser.add_argument("--seed", type=int, default=int(time.time()))
    parser.add_argument("--first", type=int, default=0, help="number of the first case")
    parser.add_argument("--count", type=int, default=1_000_000)
    arguments = parser.parse_args()
    began = said = time.monotonic()
    for number in range(arguments.first, arguments.first + arguments.count):
        random = Random(f"{arguments.seed}:{number}")  # noqa: S311 - a test's choices
        case = make(random)
        try:
            check(case, random)
        except Exception:
            _say(_failed(arguments.seed, number, case))
            raise
        if time.monotonic() - said > _PROGRESS:
            said = time.monotonic()
            done = number + 1 - arguments.first
            _say(f"{done:,} of {arguments.count:,}, {done / (said - began):,.0f} a second")
    seconds = time.monotonic() - began
    _say(f"{arguments.count:,} answers read well in {seconds:.0f} s (seed {arguments.seed})")
    return 0


def _failed(seed: int, number: int, case: Case) -> str:
    again = f"--seed {seed} --first {number} --count 1"
    return f"failed: {again}\n  streaming={case.streaming} end={case.end!r}\n  {case.wire!r}"


def _say(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
