from __future__ import annotations

from typing import Any

import orjson
import pytest

from tare.plan.order import DatasetOrder, Lengths, PhaseOrder, TargetOrder, WorkOrder
from tare.workload.conversation import Conversations
from tare.workload.dataset import DatasetError, load, reachable_entries
from tare.workload.describe import describe
from tare.workload.sizes import TokenSizes

RATE = PhaseOrder(name="p", kind="profiling", type="constant", rate=40.0, requests=400)
TIMED = PhaseOrder(name="p", kind="profiling", type="concurrency", concurrency=4, duration=5.0)


def _order(*phases: PhaseOrder, workers: int = 1, **dataset: Any) -> WorkOrder:
    return WorkOrder(
        run="run",
        namespace="bench",
        run_uid="uid",
        cell=0,
        trial=0,
        attempt=0,
        workers=workers,
        target=TargetOrder(urls=("http://h",), model="m"),
        dataset=DatasetOrder(
            **{"entries": 400, "isl": Lengths(value=16), "osl": Lengths(value=8), **dataset}
        ),
        phases=phases,
    )


def _prompts(order: WorkOrder, index: int) -> list[str]:
    requests = load(order, index).values()
    return [orjson.loads(request.body)["messages"][0]["content"] for request in requests]


@pytest.mark.parametrize("workers", [1, 3, 4])
def test_b69_workers_share_the_prompts_of_one_plan(workers: int) -> None:
    order = _order(RATE, workers=workers, seed=1)
    together = [prompt for index in range(workers) for prompt in _prompts(order, index)]
    assert len(together) == len(set(together)) == 400
    assert sorted(together) == sorted(_prompts(_order(RATE, seed=1), 0))


def test_a_worker_makes_all_prompts_when_a_phase_may_go_round_them() -> None:
    order = _order(RATE, TIMED, workers=4)
    assert list(reachable_entries(order, 2)) == list(range(400))


def test_each_request_asks_for_its_own_length() -> None:
    order = _order(RATE, osl=Lengths(min=4, max=40))
    requests = load(order, 0)
    asked = {request.max_tokens for request in requests.values()}
    assert len(asked) > 10
    assert all(
        orjson.loads(request.body)["max_tokens"] == request.max_tokens
        for request in requests.values()
    )


@pytest.mark.parametrize(
    ("dataset", "message"),
    [
        ({"entries": 0}, "dataset.entries: 0 is not allowed"),
        ({"isl": Lengths(value=0)}, r"dataset.prompts.isl: entry 0 would have 0 tokens"),
        ({"entries": 600, "isl": Lengths(value=1)}, "too few for 600 distinct prompts"),
    ],
)
def test_what_cannot_be_made_is_refused_by_its_field(dataset: dict[str, Any], message: str) -> None:
    with pytest.raises(DatasetError, match=message):
        load(_order(TIMED, **dataset), 0)


def test_the_description_sums_the_lengths_up() -> None:
    dataset = DatasetOrder(entries=3, isl=Lengths(value=16), osl=Lengths(values=(4,)), seed=9)
    description = describe(dataset, Conversations(dataset, TokenSizes()), chat=True)
    assert description.pop("outline")["runs"] == "3*0:16/4"
    assert description == {
        "type": "synthetic",
        "entries": 3,
        "seed": 9,
        "exact": False,
        "counted_by": "words",
        "prompt_tokens": {"min": 16, "mean": 16, "max": 16},
        "output_tokens": {"min": 4, "mean": 4, "max": 4},
    }
