"""What does `tare sim predict` take, and how much of that is the requests themselves?

An hour of an open loop, 4 requests a second on two replicas of a batching server, with a shared
system prompt; once with short answers and once with longer ones. Beside it, in the same process,
the same requests are only made and read: prompts drawn and encoded, bodies parsed and tokenised,
blocks hashed. No prediction can leave that out, so that the ratio is the price of everything else:
clock, engines, cache, records.

    PYTHONPATH=tests .venv/bin/python -m bench.prediction

CPU times of the fastest round. Exit code 1 when a bound is broken.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

import orjson

from tare.cli.forecast import forecast
from tare.cli.run_file import load_run
from tare.cli.virtual_client import sizes_of
from tare.decide.acceptance import Accepted, accept
from tare.decide.children import TrialKey
from tare.manifests.metadata import Owner
from tare.manifests.order import Address, build_order
from tare.net.allowlist import AllowList
from tare.sim.serve.openai import Limits, read_generation
from tare.sim.serve.tokenizer import MadeUpTokenizer
from tare.worker.workload import Workload

if TYPE_CHECKING:
    from collections.abc import Callable

MODEL = "a100-qwen3-8b"
REPLICAS = 2
RATE = 4
PREFILL = 512
SHARED = 200
# Answer's tokens: the most that a prediction may take, in times of its requests alone.
BOUNDS = {32: 4.0, 128: 7.0}
_OWNER = Owner(namespace="bench", name="hour", uid="predicted")


def manifest(answer: int, seconds: int) -> dict[str, object]:
    """A run of one cell."""
    phase = {"name": "load", "kind": "profiling", "type": "poisson", "rate": RATE}
    return {
        "apiVersion": "tare.dev/v1alpha1",
        "kind": "BenchmarkRun",
        "metadata": {"namespace": _OWNER.namespace, "name": _OWNER.name},
        "spec": {
            "endpoint": {"service": {"name": "qwen", "port": 8000}, "model": "m"},
            "dataset": {
                "prompts": {"isl": PREFILL, "osl": answer},
                "prefixPrompts": {"sharedSystemLength": SHARED},
            },
            "phases": [{**phase, "durationSeconds": seconds}],
        },
    }


def accepted(answer: int, seconds: int) -> Accepted:
    """The run, checked as the command does."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "run.json"
        path.write_text(json.dumps(manifest(answer, seconds)))
        found = accept(load_run(str(path)).run, allow_targets=AllowList.everything())
    assert isinstance(found, Accepted)
    return found


def predict(run: Accepted) -> int:
    """Predict it; return its requests."""
    found = forecast(run, _OWNER, server_model=MODEL, replicas=REPLICAS)
    (cell,) = found.cells
    return cell.pool[0].arrivals


def read(run: Accepted, requests: int) -> int:
    """Make its requests and read them as a server does; return their tokens."""
    (cell,) = run.cells
    address = Address(urls=("http://predicted",))
    order = build_order(_OWNER, TrialKey(0, 1, 1), cell.spec, address=address, headers=())
    prompts = Workload(order, 0, sizes_of(order)).prompts(order.phases[0])
    tokenizer = MadeUpTokenizer()
    limits = Limits(models=("m",), max_model_len=100_000, block_size=16, tokenizer=tokenizer)
    tokens = 0
    for number in range(requests):
        _, _, body, _ = prompts.request(number)
        tokens += len(read_generation(orjson.loads(body), limits, chat=True).prompt.ids)
    return tokens


def seconds_of(work: Callable[[], object]) -> float:
    """CPU seconds that it takes."""
    began = time.process_time()
    work()
    return time.process_time() - began


def compare(answer: int, seconds: int, rounds: int) -> bool:
    """Measure both in turn and print them; whether the bound holds."""
    run = accepted(answer, seconds)
    requests = predict(run)
    whole, alone = [], []
    for _ in range(rounds):
        whole.append(seconds_of(lambda: predict(run)))
        alone.append(seconds_of(lambda: read(run, requests)))
    ratio, bound = min(whole) / min(alone), BOUNDS[answer]
    holds = ratio <= bound
    each, least = (min(times) * 1000 / requests for times in (whole, alone))
    print(
        f"{requests:,} requests, {answer} tokens each: {min(whole):.2f} s CPU, "
        f"{each:.2f} s per 1,000; made and read only {least:.2f} s; "
        f"{ratio:.1f} × (≤ {bound:g}){'' if holds else '  BROKEN'}"
    )
    return holds


def main() -> int:
    """Measure; 1 when a bound is broken."""
    parser = argparse.ArgumentParser(prog="bench.prediction", description=__doc__)
    parser.add_argument("--seconds", type=int, default=3600, help="of load in virtual time")
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    good = [compare(answer, options.seconds, options.rounds) for answer in BOUNDS]
    return 0 if all(good) else 1


if __name__ == "__main__":
    sys.exit(main())
