from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from support.kube_api import write_kubeconfig
from support.reports import run_document
from support.scripted_http import json_reply, scripted
from support.trials import OWNER
from tare.cli.source import SourceError, read_source
from tare.manifests.metadata import child_metadata
from tare.results import chunks

if TYPE_CHECKING:
    from pathlib import Path

RUNS = "/apis/tare.dev/v1alpha1/namespaces/bench/benchmarkruns/qwen"
CONFIG_MAPS = "/api/v1/namespaces/bench/configmaps"


async def refusal(
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
    *,
    run: tuple[dict[str, Any], int],
    parts: list[Any],
) -> str:
    """What is said of run bench/qwen when the API server answers this."""
    async with scripted() as server:
        monkeypatch.setenv("KUBECONFIG", str(write_kubeconfig(folder / "config", server.origin)))
        server.on(RUNS, json_reply(*run))
        server.on(CONFIG_MAPS, json_reply({"metadata": {}, "items": parts}))
        with pytest.raises(SourceError) as error:
            await read_source("bench/qwen")
    return str(error.value)


async def test_a_run_that_is_not_there_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    missing = {"kind": "Status", "reason": "NotFound", "message": "not found"}
    said = await refusal(tmp_path, monkeypatch, run=(missing, 404), parts=[])
    assert said.startswith("there is no BenchmarkRun 'qwen' in namespace 'bench'; `kubectl get")


async def test_a_run_that_still_runs_says_what_to_wait_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = run_document(phase="Running")
    said = await refusal(tmp_path, monkeypatch, run=(run, 200), parts=[])
    assert "run bench/qwen has no results yet: its phase is Running; wait with" in said


async def test_results_of_another_version_are_refused_and_no_fault(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    metadata = [child_metadata(OWNER, "qwen-summary-p0", {})]
    parts = chunks.split(b'{"schema":"tare.dev/summary/v9"}', metadata)
    said = await refusal(tmp_path, monkeypatch, run=(run_document(), 200), parts=parts)
    assert said.startswith("the results of run bench/qwen are of another version of Tare (")
    assert "schema" in said
