"""`tare plan`: what the caches will hold, said before anything runs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner, Result

from support.bed import manifest
from tare.cli.plan import command

EXAMPLES = Path(__file__).parents[3] / "examples"


def plan(*arguments: str) -> Result:
    return CliRunner().invoke(command, arguments, env={"COLUMNS": "120"})


def written(folder: Path, **spec: Any) -> str:
    path = folder / "run.yaml"
    path.write_text(yaml.safe_dump(manifest(**spec)))
    return str(path)


def phase(kind: str, **fields: Any) -> dict[str, Any]:
    common = {"name": kind, "kind": kind, "type": "concurrency", "concurrency": 2, "requests": 20}
    return {k: v for k, v in {**common, **fields}.items() if v is not None}


def dataset(target: str = "none", **prefix: Any) -> dict[str, Any]:
    bust = {"target": target}
    return {"prompts": {"isl": 400, "osl": 4, "cacheBust": bust}, "prefixPrompts": prefix}


BOTH = [phase("warmup"), phase("profiling")]


def cells(result: Result, first: str, *more: str) -> list[str]:
    """The cells of the table's row that begins so."""
    rows = [line.split() for line in result.output.splitlines()]
    (found,) = [row for row in rows if row[: 1 + len(more)] == [first, *more]]
    return found[1 + len(more) :]


def test_a_table_says_what_is_warm_shared_and_cold(tmp_path: Path) -> None:
    result = plan(written(tmp_path, dataset=dataset(sharedSystemLength=400), phases=BOTH))
    assert result.exit_code == 0
    assert cells(result, "warmup", "system") == ["8,000", "-", "95%", "5%"]
    assert cells(result, "profiling", "system") == ["8,000", "100%", "-", "-"]
    assert cells(result, "profiling", "question")[1:] == ["100%", "-", "-"]


def test_a_baseline_makes_no_other_plan(tmp_path: Path) -> None:
    assert (
        plan(written(tmp_path, baseline={"run": "before"})).output == plan(written(tmp_path)).output
    )


def test_where_everything_is_warm_it_says_that_nothing_could_be_found(tmp_path: Path) -> None:
    result = plan(written(tmp_path, dataset=dataset(), phases=BOTH))
    assert "profiling: everything is warm by plan: what others left" in result.output
    isolated = plan(written(tmp_path, dataset=dataset("warmup_isolation_first_turn"), phases=BOTH))
    assert "everything is warm" not in isolated.output
    assert cells(isolated, "profiling", "20") == ["8,240", "0", "0", "yes"]


@pytest.mark.parametrize(
    ("arguments", "word", "why"),
    [
        ((), "yes", ""),
        (("--replicas", "2"), "no", "requests go to any of 2 replicas, each with its own cache"),
        (("--block-size", "16", "--kv-blocks", "100"), "no", "the pool may be too small"),
    ],
)
def test_what_decides_nothing_is_told_with_what_would_help(
    tmp_path: Path, arguments: tuple[str, ...], word: str, why: str
) -> None:
    result = plan(written(tmp_path, dataset=dataset(), phases=BOTH), *arguments)
    assert cells(result, "profiling", "20")[-1] == word
    assert why in result.output
    assert ("What would help: " in result.output) is (word == "no")


def test_an_open_loop_is_decided_after_the_run(tmp_path: Path) -> None:
    open_loop = phase("profiling", type="poisson", concurrency=None, rate=5, durationSeconds=600)
    phases = [phase("warmup", requests=1), open_loop]
    shared = dataset("system_suffix", sharedSystemLength=800)
    shared["prompts"]["cacheBust"]["scope"] = "TrajectoryAndPhase"
    document = written(
        tmp_path,
        dataset=shared,
        phases=phases,
        endpoint={
            "service": {"name": "qwen", "port": 8000},
            "model": "m",
            "resetKvCache": {"at": "BeforeProfiling"},
        },
    )
    result = plan(document)
    assert "after the run" in result.output
    assert "maxConcurrency would" in result.output


def test_a_loop_that_only_time_ends_is_told_to_be_unknown(tmp_path: Path) -> None:
    timed = phase("profiling", requests=None, durationSeconds=60)
    result = plan(written(tmp_path, dataset=dataset(), phases=[phase("warmup"), timed]))
    assert cells(result, "profiling", "?") == ["?", "?", "?", "no"]
    assert "is the server's doing" in result.output


def test_assumptions_are_printed(tmp_path: Path) -> None:
    output = plan(written(tmp_path, dataset=dataset(), phases=BOTH)).output
    for sentence in (
        "Every phase starts at entry 0 of the dataset",
        "Prompts share whole blocks of 16 tokens (assumed)",
        "Token lengths are approximate",
        "Nothing is evicted",
        "There is no reset",
        "There is one replica; --replicas says otherwise.",
    ):
        assert sentence in output


def test_cells_whose_plans_are_equal_share_a_table(tmp_path: Path) -> None:
    grid = {"endpoint.idleTimeoutSeconds": [5, 10], "dataset.prompts.isl": [400, 800]}
    output = plan(written(tmp_path, dataset=dataset(), phases=BOTH, sweep={"grid": grid})).output
    titles = [line for line in output.splitlines() if "cached prompt tokens" in line]
    assert len(titles) == 2
    assert "isl=400,idleTimeoutSeconds=5; isl=400,idleTimeoutSeconds=10" in titles[0]


def test_a_manifest_that_is_refused_has_no_plan(tmp_path: Path) -> None:
    result = plan(written(tmp_path, dataset=dataset("warmup_isolation_system"), phases=BOTH))
    assert result.exit_code == 2
    assert "spec.dataset.prompts: warmup_isolation_system marks" in result.output
    assert plan(str(tmp_path / "none.yaml")).exit_code == 2


def test_a_system_prompt_that_is_not_read_is_stood_for(tmp_path: Path) -> None:
    source = {"configMapKeyRef": {"name": "prompts", "key": "k"}}
    result = plan(written(tmp_path, dataset=dataset(systemPromptFrom=source), phases=BOTH))
    assert "ConfigMap is not read" in result.output
    assert cells(result, "profiling", "system")


@pytest.mark.parametrize("name", ["quickstart.yaml", "vllm.yaml"])
def test_examples_have_a_plan(name: str) -> None:
    assert plan(str(EXAMPLES / name)).exit_code == 0
