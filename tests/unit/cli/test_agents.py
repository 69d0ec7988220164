"""`tare sim agents`: the published sessions on the published machines, from the command line."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from click.testing import CliRunner, Result

from support.agents import AGENTS
from tare.cli.exits import Exit
from tare.cli.main import main
from tare.sim.predict.agents import PUBLISHED

if TYPE_CHECKING:
    from pathlib import Path

SHORT = ("--horizon", 600, "--warmup", 60)


def agents(*arguments: object) -> Result:
    command = ["sim", "agents", *map(str, arguments)]
    return CliRunner().invoke(main, command, env={"COLUMNS": "120"})


def rows(*arguments: object) -> list[dict[str, Any]]:
    result = agents("--json", *arguments)
    assert result.exit_code in (Exit.OK, Exit.NOT_CONCLUSIVE), result.output
    found: list[dict[str, Any]] = json.loads(result.stdout)["rows"]
    return found


def test_the_sessions_are_the_published_ones() -> None:
    assert PUBLISHED == AGENTS


def test_memory_is_swept_as_on_the_page() -> None:
    found = rows("--server-model", "chapter-4", "--sweep", "kv_blocks=60000,10000")
    runs = [row["runs"][0] for row in found]
    assert [f"{run['hit_rate']:.3f} {run['response']:.4f}" for run in runs] == [
        "0.979 0.0672",
        "0.260 0.1307",
    ]
    assert [run["evicted_entries"] for run in runs] == [789, 27_696]
    assert [run["rejected"] for run in runs] == [0, 784]


def test_the_table_shows_the_range_over_seeds() -> None:
    result = agents("--seeds", 2, *SHORT, "--sweep", "rate=0.5,1.5")
    assert result.exit_code == Exit.OK
    first, second = (
        line for line in result.stdout.splitlines() if line.rstrip().endswith("stable")
    )
    assert first.split()[0] == "0.5"
    assert first.count(" … ") == second.count(" … ") == 2


def test_past_the_cliff_the_load_is_unstable_and_ten_times_the_memory_carries_it() -> None:
    small = agents("--rate", 2.5, *SHORT)
    assert small.exit_code == Exit.NOT_CONCLUSIVE
    assert "unstable" in small.stdout
    [row] = rows("--rate", 2.5, *SHORT, "--server-model", "chapter-5@kv_blocks=40000")
    assert row["stable"]
    assert row["runs"][0]["stuck"] == row["runs"][0]["preemptions"] == 0


def test_blocks_can_be_swept_on_a_changed_server() -> None:
    found = rows(
        *SHORT, "--server-model", "chapter-5@max_num_seqs=8", "--sweep", "kv_blocks=4000,8000"
    )
    assert [row["value"] for row in found] == [4000, 8000]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--server-model", "a100-qwen3-8b"], "cost.sequence, cost.prefill, cost.attention"),
        (["--server-model", "chapter-5@overhead=1"], "and this one has overhead"),
        (["--server-model", "board"], "agents run on a server of one slot without overhead"),
        (["--sweep", "blocks=3"], "blocks: unknown"),
        (["--sweep", "kv_blocks=0.5"], "kv_blocks: 0.5 is not allowed"),
        (["--sweep", "rate"], "'rate' is not of the form"),
        (["--horizon", "10"], "--warmup must be shorter than --horizon"),
    ],
)
def test_what_cannot_be_run_is_refused_in_words(arguments: list[str], words: str) -> None:
    result = agents(*arguments)
    assert result.exit_code == Exit.INVALID
    assert words in " ".join(result.stderr.split())


def test_a_file_is_a_server_too(tmp_path: Path) -> None:
    path = tmp_path / "mine.yaml"
    path.write_text(
        "{scheduler: slots, max_num_seqs: 1, block_size: 16, kv_blocks: 4000, cost: {step: 1.0e-4}}"
    )
    [row] = rows(*SHORT, "--server-model", path)
    assert row["runs"][0]["cached"] > 0


@pytest.mark.parametrize(
    ("option", "value", "said"),
    [
        ("--rate", "nan", "'--rate': nan is no number"),
        ("--horizon", "nan", "'--horizon': nan is no number"),
        ("--warmup", "inf", "'--warmup': inf is no number"),
        ("--sweep", "rate=0.5,nan", "'--sweep': nan is no number"),
        ("--sweep", "rate=0", "'--sweep': 0.0 is not in the range 0<x<=1000"),
        ("--sweep", "rate=-1", "'--sweep': -1.0 is not in the range 0<x<=1000"),
    ],
)
def test_a_number_that_means_nothing_is_refused_with_its_option(
    option: str, value: str, said: str
) -> None:
    result = agents(*SHORT, option, value)
    assert result.exit_code == Exit.INVALID
    assert said in result.output
