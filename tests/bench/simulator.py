"""How fast is the simulator beside serQ, and do its long runs have the published statistics?

Speeds are CPU seconds of one run, the best of several in turn with the other program's, so that the
ratios hold on a busy machine too. serQ is the wheel `pyserq==0.1.0` in an environment of its own:

    python3 -m venv /tmp/serq && /tmp/serq/bin/pip install pyserq==0.1.0
    PYTHONPATH=tests .venv/bin/python -m bench.simulator --serq /tmp/serq/bin/python

Without `--serq` there are no ratios, without numba no compiled runs; both are said. Exit code 1
when a bound is broken.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING

from support.agents import AGENTS, CHAPTER_4, LIMITS
from tare.sim.core.accelerate import available
from tare.sim.core.agents import simulate_agents
from tare.sim.core.steps import HITS, ITERATIONS, LOOKUPS, PREEMPTIONS
from tare.sim.core.turns import simulate_turns
from tare.sim.program.load import load
from tare.telemetry.overriding import override

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from tare.sim.program.run import Model

_MODEL = Path(__file__).parents[2] / "examples" / "models" / "prefix-cache.sq"
_CAPACITIES = (2e5, 6e4, 4e4, 3e4, 2e4, 1.5e4, 1e4)
_HORIZON, _WARMUP = 20_000.0, 2_000.0
_ROUNDS = 3

# The model of `support.agents` in serQ's words of version 0.1.0.
_ENGINE = """
pool kv { cap 64000; block 16; evict lru; preempt lifo; }
pool seats { cap 16; admit via engine; }
stage engine : step {
  budget 2048;
  cost max(2e-4 + 2e-9 * (kv_decode + kv_prefill), tokens * 2e-5);
  memory kv;
}
stage tool : delay;
workload {
  arrive poisson(0.5);
  init { set context = 0; }
  turn {
    set fresh = context == 0 ? ~uniform(1000, 3000) : ~exp(500);
    set answer = ~exp(200) + 1;
  }
}
session {
  turn;
  loop {
    set prompt = context + fresh;
    set found = min(cachedin(kv), floor((prompt - 1) / 16) * 16);
    hold seats (1), kv (min(cachedin(kv), floor((prompt - 1) / 16) * 16)
        + min(prompt - min(cachedin(kv), floor((prompt - 1) / 16) * 16), budget_left(engine))) {
      set found = min(cached, floor((prompt - 1) / 16) * 16);
      run engine prefill (prompt - found) growing kv;
      run engine decode (answer - 1) growing kv;
    } cache (prompt + answer);
    set context = prompt + answer;
    branch with (0.8) { run tool (~exp(3)); turn; } else { drop kv; end; }
  }
}
run { horizon 20000; warmup 2000; seed 1; }
"""
_SERQ = """
import json, pathlib, sys, tempfile, time, pyserq
text, values = json.load(sys.stdin)
with tempfile.TemporaryDirectory() as folder:
    path = pathlib.Path(folder) / "model.sq"
    path.write_text(text)
    programs = [pyserq.compile(str(path), sets=sets) for sets in values]
spent, events = time.process_time(), 0
for program in programs:
    events += json.loads(pyserq.run(program).json())["events"]
print(json.dumps([time.process_time() - spent, events]))
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ratio:
    """serQ's CPU time over ours."""

    name: str
    ours: float
    theirs: float | None
    least: float

    @property
    def holds(self) -> bool:
        """Whether the promise is kept, as far as it could be measured."""
        return self.theirs is None or self.theirs / self.ours >= self.least

    @override
    def __str__(self) -> str:
        line = f"{self.name:<46} {self.ours:8.3f} s"
        if self.theirs is None:
            return line
        mark = "" if self.holds else "  BROKEN"
        ratio = self.theirs / self.ours
        return f"{line}   serQ {self.theirs:6.3f} s   {ratio:6.2f} × (≥ {self.least:g}){mark}"


_Pair = tuple[str, "Callable[..., None]", tuple[str, list[dict[str, float]]]]
"""Name, our function, and the program with constants that serQ runs."""


def main() -> int:
    """Measure and compare; returns the exit code."""
    parser = argparse.ArgumentParser(description="The simulator's speed and statistics.")
    parser.add_argument("--serq", metavar="PYTHON", help="interpreter that has pyserq 0.1.0")
    parser.add_argument("--only", choices=["speed", "statistics"])
    options = parser.parse_args()
    if not available():
        print("numba is not installed: no compiled runs, and statistics take ten minutes")
    good = True
    if options.only != "statistics":
        for ratio in speeds(options.serq):
            print(ratio)
            good &= ratio.holds
    if options.only != "speed":
        good &= population(load(_MODEL)) & cliff()
    return 0 if good else 1


def speeds(serq: str | None) -> list[Ratio]:
    """Measure all pairs; compiled functions have run once before."""
    model, text = load(_MODEL), _MODEL.read_text()

    def sweep(*, fast: bool) -> None:
        for capacity in _CAPACITIES:
            model.run({"C": capacity}, fast=fast)

    def turns(*, fast: bool) -> None:
        for capacity in _CAPACITIES:
            server = CHAPTER_4._replace(capacity=capacity)
            simulate_turns(AGENTS, server, horizon=_HORIZON, warmup=_WARMUP, fast=fast)

    def engine(*, fast: bool) -> None:
        simulate_agents(AGENTS, LIMITS, horizon=_HORIZON, warmup=_WARMUP, fast=fast)

    chapter_4 = (text, [{"C": c} for c in _CAPACITIES])
    pairs: list[_Pair] = [
        ("prefix-cache.sq, seven capacities", sweep, chapter_4),
        ("preset chapter 4, seven capacities", turns, chapter_4),
        ("preset chapter 5, 9.16 M iterations", engine, (_ENGINE, [{}])),
    ]
    least = {sweep: (0.2, 1.0), turns: (0.3, 6.0), engine: (1.0, 50.0)}
    ratios = []
    for name, function, theirs in pairs:
        for fast in [False, True] if available() else [False]:
            mine, others = in_turn(partial(function, fast=fast), theirs, serq)
            kind = "compiled" if fast else "plain Python"
            bound = least[function][fast]
            ratios.append(Ratio(name=f"{name}, {kind}", ours=mine, theirs=others, least=bound))
    return ratios


def in_turn(
    ours: Callable[[], None], theirs: object, serq: str | None
) -> tuple[float, float | None]:
    """Return the best times of both."""
    ours()
    mine, others = [], []
    for _ in range(_ROUNDS):
        start = time.process_time()
        ours()
        mine.append(time.process_time() - start)
        if serq:
            done = subprocess.run(
                [serq, "-c", _SERQ],
                input=json.dumps(theirs),
                capture_output=True,
                text=True,
                check=True,
            )
            others.append(json.loads(done.stdout)[0])
    return min(mine), min(others, default=None)


# Means and standard deviations over 200 seeds of an independent program: hit rate, response,
# evicted entries, mean cached.
_POPULATION: dict[float, Sequence[tuple[float, float]]] = {
    6e4: [(0.9758, 0.0037), (0.0679, 0.0010), (966, 151), (29_056, 570)],
    4e4: [(0.8489, 0.0093), (0.0881, 0.0023), (6_044, 419), (24_443, 307)],
    3e4: [(0.6918, 0.0108), (0.1098, 0.0027), (12_405, 565), (19_172, 149)],
    2e4: [(0.4658, 0.0101), (0.1355, 0.0027), (21_608, 688), (11_941, 77)],
    1.5e4: [(0.3469, 0.0080), (0.1417, 0.0023), (26_334, 705), (8_202, 46)],
    1e4: [(0.2514, 0.0058), (0.1321, 0.0014), (28_682, 636), (4_927, 25)],
}


def _sweep(model: Model, *, fast: bool) -> list[object]:
    return [model.run({"C": capacity}, fast=fast) for capacity in _CAPACITIES]


def population(model: Model) -> bool:
    """Whether the mean of 20 seeds with our own random numbers is within three standard errors."""
    good, seeds = True, 20
    for capacity, expected in _POPULATION.items():
        runs = [
            model.run({"C": capacity}, seed=seed, keyed=True, fast=available())
            for seed in range(1, seeds + 1)
        ]
        found = [
            [run.observations[1].summary.mean or 0.0 for run in runs],
            [run.observations[0].summary.mean or 0.0 for run in runs],
            [float(run.pools[0].evicted_entries) for run in runs],
            [run.pools[0].mean_cached for run in runs],
        ]
        errors = [
            (fmean(values) - mean) / (deviation / seeds**0.5)
            for values, (mean, deviation) in zip(found, expected, strict=True)
        ]
        holds = all(abs(error) < 3 for error in errors)
        shown = " ".join(f"{error:+.1f}" for error in errors)
        print(f"C = {capacity:>6g}: standard errors from the population {shown}", end="")
        print("" if holds else "  BROKEN")
        good &= holds
    return good


# Arrival rate: mean hit rate, and the range of mean times to first token over twelve seeds.
_CLIFF = {
    1.5: (0.478, 0.111, 0.182),
    1.7: (0.411, 0.239, 0.417),
    1.8: (0.390, 0.438, 0.819),
    1.9: (0.383, 0.997, 3.009),
    2.0: (0.386, 10.066, 48.244),
}


def cliff() -> bool:
    """Whether twelve seeds show the same cliff as an independent program's twelve."""
    good = True
    for rate, (hit_rate, low, high) in _CLIFF.items():
        hits, first, preempted = [], [], []
        for seed in range(1, 13):
            run = simulate_agents(
                AGENTS._replace(rate=rate),
                LIMITS,
                horizon=_HORIZON,
                warmup=_WARMUP,
                seed=seed,
                fast=available(),
            )
            counts = run.engine_counts
            hits.append(counts[HITS] / counts[LOOKUPS])
            first.append(fmean(run.first_token))
            preempted.append(counts[PREEMPTIONS])
            assert counts[ITERATIONS] > 0
        holds = abs(fmean(hits) - hit_rate) < 0.005 and low * 0.95 < min(first)
        holds &= max(first) < high * 1.05
        shown = f"TTFT {min(first):.3f} … {max(first):.3f} s, {fmean(preempted):,.0f} preemptions"
        print(f"{rate:g} sessions/s: hit rate {fmean(hits):.3f}, {shown}", end="")
        print("" if holds else "  BROKEN")
        good &= holds
    return good


if __name__ == "__main__":
    sys.exit(main())
