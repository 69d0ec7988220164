"""The simulated server beside a real vLLM: the same requests find the same tokens cached.

`TARE_VLLM_URLS` names the server, the first one is asked; it needs VLLM_SERVER_DEV_MODE=1 and
--enable-prompt-tokens-details. `TARE_VLLM_TOKENIZER` is the folder of its model, whose
`tokenizer.json` and chat template the simulated one reads. 200 requests of each prefix mode are
sent one after the other to each, from a cold cache: prompt tokens and cached tokens must be the
same for each of them.
"""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import orjson
import pytest

from support.load import closed_loop, run_load, work_order
from tare.endpoint.client import ControlClient
from tare.plan.order import CacheBustOrder, DatasetOrder, Lengths
from tare.sim.serve.options import parse_options
from tare.sim.serve.server import Server
from tare.sim.serve.tokenizer import FolderTokenizer

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

REAL = os.environ.get("TARE_VLLM_URLS", "http://127.0.0.1:18800").split()[0].rstrip("/")
FOLDER = Path(
    os.environ.get("TARE_VLLM_TOKENIZER", Path.home() / ".cache" / "test-servers" / "vllm" / "tiny")
)
REQUESTS = 200
LIKE_REAL = ("--max-model-len", "4096", "--block-size", "32", "--kv-blocks", "8191")
FAST = ("--ttft-overhead", "0s", "--itl", "0s", "--prefill-rate", "1e9")
MODES: dict[str, dict[str, Any]] = {
    "no prefix": {},
    "shared system": {"shared_system": 300},
    "verbatim system": {"system_prompt": "You are a helpful assistant. Answer briefly. " * 20},
    "user context": {"user_context": 170},
    "prefix pool": {"pool_size": 5, "pool_length": 200},
    "shared system, markers": {
        "shared_system": 300,
        "cache_bust": CacheBustOrder(target="first_turn_prefix"),
    },
}
WAYS = [
    *((mode, "chat") for mode in MODES),
    # Completions have no system message.
    *((mode, "completions") for mode in MODES if "system" not in mode),
]


@pytest.fixture
async def simulated() -> AsyncIterator[str]:
    arguments = ("--host", "127.0.0.1", "--port", "0", "--model", "tiny", *LIKE_REAL, *FAST)
    server = Server(parse_options(arguments), tokenizer=FolderTokenizer(FOLDER))
    await server.start()
    yield server.origin
    await server.stop(grace_seconds=0)


async def counted(
    url: str, dataset: DatasetOrder, way: str, folder: Path
) -> list[tuple[int, int, int]]:
    """Ask one server from cold; return entry, prompt and cached tokens of each request."""
    async with ControlClient() as http:
        answer = await http.call("POST", f"{url}/reset_prefix_cache", headers={}, timeout=30)
    assert orjson.loads(answer.body) == {"success": True}
    order = work_order(
        phases=(closed_loop(requests=REQUESTS, concurrency=1),),
        target={"urls": (url,), "model": "tiny", "type": way},
        artifacts=str(folder),
    )
    await run_load(replace(order, dataset=dataset))
    rows = sorted(records(folder), key=lambda row: row["number"])
    assert {row["status"] for row in rows} == {"ok"}
    return [(row["entry"], row["prompt_tokens"], row["cached_tokens"]) for row in rows]


def records(folder: Path) -> list[dict[str, Any]]:
    """Take what the client wrote down."""
    (journal,) = folder.glob("*.jsonl")
    lines = journal.read_bytes().splitlines()
    journal.unlink()
    return [orjson.loads(line) for line in lines]


@pytest.mark.parametrize(("mode", "way"), WAYS)
async def test_prompt_and_cached_tokens_are_those_of_a_real_server(
    simulated: str, mode: str, way: str, tmp_path: Path
) -> None:
    dataset = DatasetOrder(
        entries=REQUESTS * 3 // 4,  # The last quarter comes for the second time.
        isl=Lengths(min=40, max=400),
        osl=Lengths(min=1, max=8),
        **MODES[mode],
    )
    real = await counted(REAL, dataset, way, tmp_path)
    assert len(real) == REQUESTS
    assert sum(cached for _, _, cached in real) > 0
    assert await counted(simulated, dataset, way, tmp_path) == real
