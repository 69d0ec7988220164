"""`tare sim predict`: manifests in virtual time, the board of the page among them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner, Result

from support.invalid_manifests import valid_manifest
from tare.cli.exits import Exit
from tare.cli.main import main

EXAMPLES = Path(__file__).parents[3] / "examples"


def predict(*arguments: object, stdin: str | None = None) -> Result:
    command = ["sim", "predict", *map(str, arguments)]
    return CliRunner().invoke(main, command, input=stdin, env={"COLUMNS": "150"})


def manifest(**changes: Any) -> str:
    """A short run with one cell on the machine of chapter 5."""
    phase = {"name": "profiling", "kind": "profiling", "type": "poisson", "rate": 2}
    document = {
        "apiVersion": "tare.dev/v1alpha1",
        "kind": "BenchmarkRun",
        "metadata": {"name": "short", "namespace": "bench"},
        "spec": {
            "endpoint": {"service": {"name": "sim", "port": 8000}, "model": "chapter-5"},
            "dataset": {"prompts": {"isl": 300, "osl": 20}},
            "phases": [{**phase, "durationSeconds": 30}],
        },
    }
    for path, value in changes.items():
        target: Any = document["spec"]
        *steps, last = path.split("__")
        for step in steps:
            target = target[int(step)] if step.isdigit() else target.setdefault(step, {})
        target[last] = value
    return yaml.safe_dump(document)


def predicted(text: str, *arguments: object) -> dict[str, Any]:
    result = predict("-", "--json", *arguments, stdin=text)
    assert result.exit_code in (Exit.OK, Exit.GOALS_MISSED, Exit.NOT_CONCLUSIVE), result.output
    document: dict[str, Any] = json.loads(result.stdout)
    return document


def metric(document: dict[str, Any], cell: int, name: str, statistic: str = "mean") -> float:
    found = document["cells"][cell]["summary"]["metrics"][name][statistic]["mean"]
    assert isinstance(found, float)
    return found


@pytest.fixture(scope="module")
def board() -> dict[str, Any]:
    return predicted((EXAMPLES / "prefix-board.yaml").read_text())


def test_both_boards_have_the_numbers_of_the_page(board: dict[str, Any]) -> None:
    shown = [
        (
            cell["name"],
            f"{metric(board, place, 'request_latency', 'p99'):.1f} s",
            f"{metric(board, place, 'request_throughput'):.0f} req/s",
            f"{metric(board, place, 'monthly_cost'):,.0f} USD",
            f"{metric(board, place, 'error_rate'):.1%}",
        )
        for place, cell in enumerate(board["cells"])
    ]
    assert shown == [
        ("whole prompt", "10.1 s", "2 req/s", "1,904 USD", "43.6%"),
        ("shared prefix", "1.6 s", "3 req/s", "1,904 USD", "0.0%"),
    ]


def test_the_board_without_a_cache_fails_the_goals_that_it_fails_on_the_page(
    board: dict[str, Any],
) -> None:
    verdicts = [[goal["verdict"] for goal in cell["goals"]] for cell in board["cells"]]
    assert verdicts == [["Fail", "Fail", "Pass", "Fail"], ["Pass", "Pass", "Pass", "Pass"]]
    assert board["verdict"]["best"] == 1


def test_the_gpu_reads_600_of_6000_tokens_and_does_a_quarter_of_the_work(
    board: dict[str, Any],
) -> None:
    whole, shared = (metric(board, cell, "cached_tokens", "p50") for cell in (0, 1))
    assert [metric(board, cell, "prompt_tokens", "max") for cell in (0, 1)] == [6000, 6000]
    assert (whole, shared) == (0, 5400)
    work = [(6000 - cached) / 10 + 120 for cached in (whole, shared)]
    assert work[1] / work[0] == 0.25


def test_the_board_shows_its_goals_side_by_side() -> None:
    small = (EXAMPLES / "prefix-board.yaml").read_text().replace("1200", "20")
    result = predict("-", stdin=small)
    assert result.exit_code == Exit.GOALS_MISSED
    lines = result.stdout.splitlines()
    heading = next(at for at, line in enumerate(lines) if "Goals, side by side" in line)
    rows = "\n".join(lines[heading:])
    assert "shared prefix" in rows
    assert "1.64 s  Pass" in rows
    assert "Fail" in rows


def test_the_levels_need_most_of_the_prompt_reused_and_a_batch_that_is_not_too_small() -> None:
    text = (EXAMPLES / "prefix-board-levels.yaml").read_text()
    document = predicted(text.replace("durationSeconds: 200", "durationSeconds: 40"))
    met = {
        cell["name"]: all(goal["verdict"] == "Pass" for goal in cell["goals"])
        for cell in document["cells"]
    }
    assert len(met) == 16
    assert not any(passed for name, passed in met.items() if name.startswith("0 %"))
    assert met["90 % reused, batch 6"]
    assert not met["60 % reused, batch 4"]


def test_a_prediction_is_the_document_of_a_measured_run_and_more() -> None:
    document = predicted(manifest())
    assert document["schema"] == "tare.dev/summary/v1"
    assert document["run"]["name"] == "short"
    [cell] = document["cells"]
    assert cell["state"] == "Measured"
    assert cell["summary"]["counts"]["ok"] == cell["summary"]["counts"]["issued"] > 40
    [beside] = document["prediction"]["cells"]
    assert (beside["server_model"], beside["replicas"], beside["stable"]) == ("chapter-5", 1, True)
    [pool] = beside["trials"]
    assert pool["capacity_tokens"] == 64_000
    assert 0 < pool["used_tokens"] < 1000
    assert pool["rejected"] == pool["preemptions"] == pool["stuck"] == 0


def test_the_same_file_gives_the_same_digits() -> None:
    text = manifest(dataset__prompts__cacheBust={"target": "first_turn_prefix"})
    assert predicted(text) == predicted(text)


def test_a_baseline_changes_nothing_of_a_prediction() -> None:
    text = manifest(dataset__seed=3)
    with_baseline = manifest(dataset__seed=3, baseline={"run": "before"})
    assert predict("-", stdin=with_baseline).stdout == predict("-", stdin=text).stdout


def test_a_quiet_server_answers_as_its_cost_says() -> None:
    document = predicted(manifest(phases__0__type="constant", phases__0__rate=1))
    # 312 prompt tokens with the template in one iteration, then 19 for the rest.
    assert metric(document, 0, "time_to_first_token", "max") == pytest.approx(312 * 2e-5, rel=1e-3)
    step = 2e-4 + 2e-9 * 336
    assert metric(document, 0, "time_per_output_token", "p50") == pytest.approx(step, rel=1e-2)


def test_warm_up_leaves_its_prompts_behind_unless_a_marker_or_a_reset_is_asked_for() -> None:
    phases = [
        {"name": "warmup", "kind": "warmup", "type": "concurrency", "concurrency": 1},
        {"name": "profiling", "kind": "profiling", "type": "concurrency", "concurrency": 1},
    ]
    both = [{**phase, "requests": 10} for phase in phases]
    found = {}
    for name, changes in {
        "warm": {},
        "marked": {"dataset__prompts__cacheBust": {"target": "warmup_isolation_first_turn"}},
        "reset": {"endpoint__resetKvCache": {"at": "BeforeProfiling"}},
        "salted": {
            "dataset__prompts__cacheBust": {
                "target": "first_turn_prefix",
                "carrier": "salt",
                "scope": "TrajectoryAndPhase",
            }
        },
    }.items():
        document = predicted(manifest(phases=both, **changes))
        found[name] = metric(document, 0, "cached_tokens", "max")
    assert found == {"warm": 304, "marked": 0, "reset": 0, "salted": 0}


def test_trials_find_what_earlier_ones_left_unless_the_cache_is_reset() -> None:
    warm = predicted(manifest(trials={"count": 2}))
    cold = predicted(manifest(trials={"count": 2}, endpoint__resetKvCache=True))
    assert metric(warm, 0, "cached_tokens", "max") == pytest.approx(304 / 2)
    assert metric(cold, 0, "cached_tokens", "max") == 0


def test_sessions_find_the_turns_before() -> None:
    sessions = {
        "name": "profiling",
        "kind": "profiling",
        "type": "sessions",
        "concurrency": 2,
        "sessions": 6,
    }
    document = predicted(
        manifest(phases=[sessions], dataset__turns={"mean": 3, "turnDelay": "500ms"})
    )
    assert document["cells"][0]["summary"]["counts"]["issued"] == 18
    assert metric(document, 0, "cached_tokens", "min") == 0
    assert metric(document, 0, "cached_tokens", "max") > 600


def counted(document: dict[str, Any]) -> dict[str, int]:
    counts = document["cells"][0]["summary"]["counts"]
    assert isinstance(counts, dict)
    return counts


def test_an_answer_in_one_piece_has_no_first_token() -> None:
    streamed = predicted(manifest(phases__0__type="constant"))
    whole = predicted(manifest(phases__0__type="constant", endpoint__streaming=False))
    assert "time_to_first_token" not in whole["cells"][0]["summary"]["metrics"]
    # A stream ends with its last text; the last token of these answers has some.
    assert metric(whole, 0, "request_latency") == metric(streamed, 0, "request_latency")


def test_a_client_that_loses_patience_is_a_time_out_and_frees_the_server() -> None:
    slow = manifest(
        endpoint__model="board@max_num_seqs=1",
        endpoint__requestTimeoutSeconds=2,
        dataset__prompts={"isl": 1000, "osl": 120},
        phases__0__rate=1,
        phases__0__type="constant",
    )
    counts = counted(predicted(slow))
    # One takes 1.12 s: of those that wait, most are gone before their turn comes.
    assert counts["timeout"] == counts["failed"] > 3
    assert counts["ok"] + counts["timeout"] == counts["issued"] == 30


def test_requests_are_cancelled_as_planned_and_held_back_as_bounded() -> None:
    cancelled = manifest(phases__0__cancelShare="50%", phases__0__cancelAfterSeconds=0.002)
    counts = counted(predicted(cancelled))
    assert 0 < counts["planned_cancel"] < counts["issued"]
    assert counts["ok"] + counts["planned_cancel"] == counts["issued"]
    bounded = manifest(
        endpoint__model="board",
        dataset__prompts={"isl": 5000, "osl": 100},
        phases__0__maxConcurrency=2,
    )
    document = predicted(bounded)
    assert counted(document)["unsent"] > 0
    assert document["prediction"]["cells"][0]["trials"][0]["given_up"] == 0


def test_goodput_and_the_grace_period_are_those_of_a_measurement() -> None:
    text = manifest(
        endpoint__model="board",
        dataset__prompts={"isl": 500, "osl": 100},
        goodput={"time_to_first_token": "1ms"},
        phases__0__gracePeriodSeconds=0,
        phases__0__type="constant",
    )
    document = predicted(text)
    assert metric(document, 0, "good_request_fraction") == 0
    counts = counted(document)
    # 2 a second, each 1.4 s: those of the last moments are not awaited.
    assert counts["cancelled"] == counts["issued"] - counts["ok"] == 2


def test_every_replica_has_to_see_a_prefix_for_itself() -> None:
    text = manifest(dataset__prefixPrompts={"sharedSystemLength": 160})
    one, four = (predicted(text, "--replicas", count) for count in (1, 4))
    assert four["prediction"]["cells"][0]["replicas"] == 4
    colds = [
        round((304 - metric(found, 0, "cached_tokens")) * found["cells"][0]["summary"]["trials"])
        for found in (one, four)
    ]
    assert metric(one, 0, "cached_tokens") > metric(four, 0, "cached_tokens") > 0
    assert colds[0] < colds[1]


def test_replicas_are_those_of_the_manifest() -> None:
    priced = manifest(cost={"usdPerHour": "1", "replicas": 3})
    assert predicted(priced)["prediction"]["cells"][0]["replicas"] == 3


def test_workers_share_the_load_and_change_nothing_of_it() -> None:
    one, many = (
        predicted(manifest(workers={"replicas": count, "processes": 2})) for count in (1, 4)
    )
    counts = [document["cells"][0]["summary"]["counts"] for document in (one, many)]
    assert counts[0] == counts[1]
    assert metric(one, 0, "request_latency") == metric(many, 0, "request_latency")


def test_a_load_past_the_cliff_is_unstable_and_seeds_show_the_range() -> None:
    text = manifest(
        phases__0__rate=20, phases__0__durationSeconds=30, dataset__prompts={"isl": 4000, "osl": 20}
    )
    result = predict("-", "--seeds", 3, stdin=text)
    assert result.exit_code == Exit.NOT_CONCLUSIVE
    assert "unstable" in result.stdout
    assert "Range over 3 seeds" in result.stdout
    assert "the load is too much in 3 of 3 trials: the backlog grows to the end" in result.stdout
    [cell] = predicted(text, "--seeds", 3)["prediction"]["cells"]
    low, high = cell["ranges"]["time_to_first_token p99"]
    assert cell["unstable_trials"] == len(cell["trials"]) == 3
    assert 1 < low < high


def test_a_server_model_can_be_named_changed_or_a_file(tmp_path: Path) -> None:
    path = tmp_path / "mine.yaml"
    path.write_text(
        yaml.safe_dump(
            {
                "scheduler": "slots",
                "max_num_seqs": 4,
                "block_size": 16,
                "kv_blocks": 1000,
                "cost": {"step": 0.01, "prefill": 0.001},
            }
        )
    )
    text = manifest(endpoint__model="Qwen/Qwen3-8B")
    first = [
        metric(predicted(text, "--server-model", model), 0, "time_to_first_token", "min")
        for model in ("chapter-5", "chapter-5@cost.token=4e-5", path)
    ]
    assert first == [pytest.approx(seconds, rel=1e-3) for seconds in (0.00624, 0.01248, 0.322)]


def test_a_system_prompt_comes_from_the_config_map_beside_the_run() -> None:
    source = {"configMapKeyRef": {"name": "prompts", "key": "system"}}
    run = manifest(dataset__prefixPrompts={"systemPromptFrom": source})
    given = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "prompts"},
        "data": {"system": "be kind " * 100},
    }
    document = predicted(f"{run}---\n{yaml.safe_dump(given)}")
    assert metric(document, 0, "cached_tokens", "max") == 208
    alone = predict("-", stdin=run)
    assert alone.exit_code == Exit.INVALID
    assert "put the ConfigMap prompts with the key system into the file too" in alone.stderr


@pytest.mark.parametrize(
    ("text", "arguments", "words"),
    [
        (manifest(endpoint__model="Qwen"), [], "spec.endpoint.model: 'Qwen' is not the name of a"),
        (manifest(), ["--server-model", "bord"], "there is no server model 'bord'"),
        (manifest(endpoint__model="board@x=1"), [], "board@x=1: x: unknown; allowed are"),
        (manifest(), ["--replicas", "0"], "0 is not in the range"),
        (manifest(phases=[]), [], "spec.phases"),
        ("kind: [", [], "no YAML"),
        (
            manifest(
                dataset={"entries": 1000, "prompts": {"isl": 1, "osl": 1}}, phases__0__rate=40
            ),
            [],
            "dataset.prompts.isl: 1 tokens are too few for 1000 distinct prompts",
        ),
    ],
)
def test_what_cannot_be_predicted_is_refused_in_words(
    text: str, arguments: list[str], words: str
) -> None:
    result = predict("-", *arguments, stdin=text)
    assert result.exit_code == Exit.INVALID, result.output
    assert words in " ".join(result.stderr.split())
    assert isinstance(result.exception, SystemExit)


def test_a_manifest_of_the_tests_is_predicted() -> None:
    result = predict("-", "--server-model", "chapter-5", stdin=yaml.safe_dump(valid_manifest()))
    assert ": KV memory in tokens" in result.stdout


def test_the_help_fits_into_80_columns() -> None:
    result = CliRunner().invoke(main, ["sim", "predict", "--help"])
    assert result.exit_code == 0
    assert max(map(len, result.stdout.splitlines())) <= 80
