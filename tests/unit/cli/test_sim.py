from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from tare.cli.main import main

MODELS = Path(__file__).parents[3] / "examples" / "models"
SMALL = """\
let C = 10;
pool m { cap C; }
stage s : delay;
workload { arrive batch(50); turn { set u = ~uniform(1, 12); } }
session { turn; hold m (u) { run s (1); } observe done = now; observe never = 1 > 2; }
run { horizon 1000; seed 1; }
"""


@pytest.fixture
def small(tmp_path: Path) -> Path:
    path = tmp_path / "small.sq"
    path.write_text(SMALL)
    return path


def run(*arguments: object) -> Result:
    return CliRunner().invoke(main, ["sim", "run", *map(str, arguments)])


def test_a_program_prints_its_report_with_what_was_rejected(small: Path) -> None:
    result = run(small)
    assert result.exit_code == 0, result.output
    assert result.stdout.startswith("run: horizon 1000 end 1000 warmup 0 seed 1 events ")
    assert "needed more than all of m, left at once and are in no mean" in result.stdout
    assert "note: never is 0 in each of its" in result.stdout


def test_constants_and_the_seed_can_be_set(small: Path) -> None:
    document = json.loads(run(small, "--set", "C=20", "--seed", 7, "--json").stdout)
    assert (document["constants"], document["seed"], document["rejected"]) == ({"C": 20.0}, 7, 0)


def test_the_same_seed_prints_the_same_json(small: Path) -> None:
    assert run(small, "--json").stdout == run(small, "--json").stdout
    assert run(small, "--json").stdout != run(small, "--json", "--seed", 2).stdout


def test_a_sweep_prints_one_row_for_each_value_and_what_rejections_hide(small: Path) -> None:
    result = run(small, "--sweep", "C=12,10,6")
    assert result.exit_code == 0, result.output
    heads, _, *rows = result.stdout.splitlines()[:5]
    for head in ("C ", "done", "m rejected", "done, same turns", "turns missing"):
        assert head in heads
    assert [row.split()[0] for row in rows] == ["12", "10", "6"]
    assert rows[0].endswith("0.0%")
    assert "the rows are about different turns" in result.stdout


def test_a_sweep_as_json_has_a_whole_run_for_each_value(small: Path) -> None:
    document = json.loads(run(small, "--sweep", "C=12,6", "--json").stdout)
    assert document["sweep"] == "C"
    first, second = document["rows"]
    assert (first["value"], second["value"]) == (12.0, 6.0)
    assert first["run"]["rejected"] == 0 < second["run"]["rejected"]
    assert second["same_turns"]["done"]["missing"] > 0.1


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (
            "stage s : delay;\nrun { horizon 1; }\nsession { walk s (1); }",
            "3:11: unexpected 'walk'",
        ),
        (SMALL.replace("u)", "w)"), "small.sq:5:25: unknown name 'w'"),
        (SMALL.replace("run s (1)", "run s (1 - u)"), "small.sq:5:30: the work of a run must be"),
    ],
)
def test_a_bad_program_is_told_with_file_line_and_column_and_no_traceback(
    small: Path, text: str, words: str
) -> None:
    small.write_text(text)
    result = run(small)
    assert result.exit_code == 2
    assert str(small) in result.stderr
    assert words in result.stderr
    assert len(result.stderr.splitlines()) == 1
    assert isinstance(result.exception, SystemExit)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--set", "D=3"], "there is no constant 'D' to set; the program has: C"),
        (["--set", "C"], "'C' is not of the form NAME=NUMBER"),
        (["--set", "C=1,2"], "'C=1,2' has more than one value"),
        (["--sweep", "C=1,x"], "'C=1,x' is not of the form NAME=NUMBER"),
        (["--sweep", "D=1,2"], "there is no constant 'D'"),
        (["--set", "C=-1"], "the capacity of m is -1; it must be more than 0"),
        (["--max-steps", "20"], "given up after 20 events"),
    ],
)
def test_bad_arguments_are_refused_in_words(small: Path, arguments: list[str], words: str) -> None:
    result = run(small, *arguments)
    assert result.exit_code == 2
    assert words in result.stderr


def test_a_file_that_is_not_there_is_named() -> None:
    result = run("nowhere.sq")
    assert result.exit_code == 2
    assert "cannot read nowhere.sq: No such file or directory" in result.stderr


def test_yaml_runs_too() -> None:
    result = run(MODELS / "queue.yaml")
    assert "4.8040  ±0.2377  0.916  20.4865" in result.stdout


def test_the_help_fits_into_80_columns() -> None:
    result = run("--help")
    assert result.exit_code == 0
    assert max(map(len, result.stdout.splitlines())) <= 80
