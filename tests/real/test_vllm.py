"""Two real vLLM servers, measured by the whole product; `make test-vllm` says how to start them.

`TARE_VLLM_URLS` names them. They need VLLM_SERVER_DEV_MODE=1, --enable-prompt-tokens-details, and
for the traces --profiler-config; `TARE_VLLM_TRACES` is the folder of the traces.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import yaml

from tare.api.reasons import Reason
from tare.manifests.metadata import Owner
from tare.measure.histogram import Histogram
from tare.measure.hooks import CallOutcome, HookKind
from tare.measure.servers import ServerCount
from tare.results.store import ResultStore

if TYPE_CHECKING:
    from support.bed import Bed
    from tare.kube.port import Document
    from tare.results.document import TrialDocument

EXAMPLE = Path(__file__).parents[2] / "examples" / "vllm.yaml"
DEFAULT = "http://127.0.0.1:18800 http://127.0.0.1:18801"
TRACES = Path(os.environ.get("TARE_VLLM_TRACES", "/var/tmp/test-servers/vllm/profile"))
URLS = os.environ.get("TARE_VLLM_URLS", DEFAULT).split()


def example(**endpoint: Any) -> Document:
    document: Document = yaml.safe_load(EXAMPLE.read_text())
    del document["metadata"]["namespace"]
    del document["spec"]["endpoint"]["url"]
    document["spec"]["endpoint"] |= {"urls": URLS, **endpoint}
    return document


async def measured(bed: Bed, document: Document) -> list[TrialDocument]:
    """Run a manifest to its end and return its trials in the order of the cells."""
    namespace = await bed.namespace()
    run = await bed.submit(namespace, document)
    metadata = run["metadata"]
    status = await bed.finished(namespace, metadata["name"], seconds=900)
    assert status["phase"] == "Succeeded", status
    owner = Owner(name=metadata["name"], namespace=namespace, uid=metadata["uid"])
    trials = await ResultStore(bed.cluster).load_trials(owner)
    return [trial for _, trial in sorted(trials.items())]


def first_cached(trial: TrialDocument) -> int | None:
    assert trial.record.summary is not None
    return trial.record.summary.phases[0].first_cached_tokens


def total(trial: TrialDocument, metric: str) -> int:
    assert trial.record.summary is not None
    histograms = [phase.histograms[metric] for phase in trial.record.summary.phases]
    return sum(Histogram.from_json(histogram).sum for histogram in histograms)


def counted(trial: TrialDocument, name: ServerCount) -> float:
    deltas = [counts.delta(name) for counts in trial.servers]
    assert len(deltas) == len(URLS)
    return sum(delta for delta in deltas if delta is not None)


def traces() -> set[Path]:
    return set(TRACES.glob("*.json.gz"))


@pytest.fixture
async def trials(bed: Bed) -> list[TrialDocument]:
    return await measured(bed, example())


async def test_every_reset_is_answered_by_both_servers_and_empties_both(
    trials: list[TrialDocument],
) -> None:
    assert len(trials) == 2
    for trial in trials:
        resets = [row for row in trial.hooks if row.hook is HookKind.RESET]
        assert {row.replica for row in resets} == {url.rstrip("/") for url in URLS}
        assert {row.outcome for row in resets} == {CallOutcome.CONFIRMED}
        assert first_cached(trial) == 0
        assert trial.record.cache is not None
        assert trial.record.cache.reason is Reason.AS_PLANNED


async def test_without_the_reset_the_second_cell_finds_the_prompts_of_the_first(bed: Bed) -> None:
    trials = await measured(bed, example(resetKvCache=False, serverProfiler=False))
    warm = first_cached(trials[1])
    assert warm is not None
    assert warm > 0
    reasons = [trial.record.cache.reason if trial.record.cache else None for trial in trials]
    assert reasons[1] is Reason.WARM_CACHE


async def test_token_counts_equal_the_servers_own(trials: list[TrialDocument]) -> None:
    for trial in trials:
        assert counted(trial, ServerCount.REQUESTS) == 8
        assert total(trial, "prompt_tokens") == counted(trial, ServerCount.PROMPT_TOKENS)
        assert total(trial, "output_tokens") == counted(trial, ServerCount.OUTPUT_TOKENS)
        assert total(trial, "cached_tokens") == counted(trial, ServerCount.CACHE_HITS)


async def test_each_profiling_phase_leaves_one_trace_on_each_server(bed: Bed) -> None:
    before = traces()
    await measured(bed, example())
    assert len(traces() - before) == len(URLS) * 2
