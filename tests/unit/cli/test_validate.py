"""`tare validate`: the operator's answers without a cluster."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner, Result

from support.invalid_manifests import DELETE, INVALID, Refuser, Row, changed, valid_manifest
from tare.cli.validate import command

SERVICE = {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "qwen"}}
EXAMPLES = Path(__file__).parents[3] / "examples"
ALLOW_LIST_ONLY = "allow-list"
"""In the message of rows that only a cluster's operator refuses."""


def validate(*arguments: str, stdin: str | None = None) -> Result:
    return CliRunner().invoke(command, arguments, input=stdin)


def written(folder: Path, *documents: Any) -> str:
    path = folder / "run.yaml"
    path.write_text(yaml.safe_dump_all(documents))
    return str(path)


def test_a_valid_manifest_is_one_line_with_its_size(tmp_path: Path) -> None:
    result = validate(written(tmp_path, valid_manifest()))

    assert result.exit_code == 0
    assert result.output == "qwen: valid, 2 cells x 2 trials\n"


def test_one_of_each_is_not_plural(tmp_path: Path) -> None:
    manifest = changed({"spec.sweep": {"grid": {"dataset.seed": [1]}}, "spec.trials.count": 1})

    assert validate(written(tmp_path, manifest)).output == "qwen: valid, 1 cell x 1 trial\n"


def test_a_marker_that_falls_through_is_a_warning_and_no_problem(tmp_path: Path) -> None:
    bust = {"spec.dataset.prompts.cacheBust": {"target": "system_prefix"}, "spec.sweep": DELETE}

    result = validate(written(tmp_path, changed(bust)))

    assert result.exit_code == 0
    assert result.output.splitlines()[1].startswith(
        "qwen: warning: spec.dataset.prompts.cacheBust.target: prompts have no system message"
    )


def test_a_problem_is_one_line_that_begins_with_its_path(tmp_path: Path) -> None:
    result = validate(written(tmp_path, changed({"spec.trials.count": 0})))

    assert result.exit_code == 2
    assert result.output == ("spec.trials.count: 0 is out of range; use a number from 1 to 20\n")


@pytest.mark.parametrize(
    "row",
    [row for row in INVALID if ALLOW_LIST_ONLY not in row.fragments],
    ids=lambda row: row.name,
)
def test_what_the_cluster_refuses_is_refused_offline(row: Row, tmp_path: Path) -> None:
    result = validate(written(tmp_path, row.manifest))

    assert result.exit_code == 2
    assert f"{row.path}: " in result.output
    assert "Traceback" not in result.output


def test_targets_are_left_to_the_operator_that_knows_its_allow_list() -> None:
    rows = [row for row in INVALID if ALLOW_LIST_ONLY in row.fragments]

    assert rows
    assert all(row.refused_by is Refuser.OPERATOR for row in rows)
    assert [validate("-", stdin=yaml.safe_dump(row.manifest)).exit_code for row in rows] == [
        0
    ] * len(rows)


def test_other_objects_in_the_file_are_passed_over(tmp_path: Path) -> None:
    result = validate(written(tmp_path, SERVICE, valid_manifest(), None))

    assert result.exit_code == 0
    assert result.output.startswith("qwen: valid")


def test_every_run_in_the_file_is_checked(tmp_path: Path) -> None:
    result = validate(written(tmp_path, changed({"kind": "Benchmark"}), valid_manifest()))

    assert result.exit_code == 2
    assert "kind: 'Benchmark'; use BenchmarkRun" in result.output
    assert "qwen: valid" in result.output


def test_a_manifest_comes_from_standard_input() -> None:
    assert validate("-", stdin=yaml.safe_dump(valid_manifest())).exit_code == 0


def test_several_files_are_checked(tmp_path: Path) -> None:
    good = written(tmp_path, valid_manifest())

    assert validate(good, good).output.count("valid") == 2
    assert validate(good, str(tmp_path / "gone.yaml")).exit_code == 2


@pytest.mark.parametrize(
    ("text", "fragment"),
    [
        ("kind: [", "line 1, column 8"),
        ("a: 1\n b: 2", "line 2"),
        ("kind: BenchmarkRun\nkind: BenchmarkRun", "'kind' stands twice"),
        ("1: x", "the key 1 is no text"),
        ("{[a]: x}", "is no text"),
        ("", "no BenchmarkRun in it"),
        ("kind: Service\napiVersion: v1", "no BenchmarkRun in it"),
        ("just text", "no object"),
        ("- a", "no object"),
        ("!!python/object:os.system {}", "no YAML"),
    ],
)
def test_a_file_that_is_no_manifest_gets_one_clear_line(text: str, fragment: str) -> None:
    result = validate("-", stdin=text)

    assert result.exit_code == 2
    assert fragment in result.output
    assert len(result.output.splitlines()) == 1


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    result = validate(str(tmp_path / "gone.yaml"))

    assert result.exit_code == 2
    assert result.output == f"{tmp_path}/gone.yaml: cannot be read: No such file or directory\n"


def test_a_folder_and_a_binary_file_are_refused(tmp_path: Path) -> None:
    binary = tmp_path / "image.png"
    binary.write_bytes(b"\x89PNG\xff")

    assert "cannot be read: Is a directory" in validate(str(tmp_path)).output
    assert "no UTF-8 text" in validate(str(binary)).output


def test_a_text_that_looks_like_a_date_stays_a_text(tmp_path: Path) -> None:
    path = tmp_path / "run.yaml"
    text = yaml.safe_dump(changed({"spec.endpoint.model": "MODEL"}))
    path.write_text(text.replace("MODEL", "2026-11-30"))

    assert validate(str(path)).exit_code == 0


def test_merged_mappings_are_one_mapping(tmp_path: Path) -> None:
    path = tmp_path / "run.yaml"
    text = yaml.safe_dump(changed({"spec.workers": {"labels": {"LABELS": "x"}}}))
    path.write_text(text.replace("LABELS: x", "<<: {team: perf}\n      team: core"))

    assert validate(str(path)).exit_code == 0


def test_without_a_file_the_command_says_how_to_use_it() -> None:
    result = validate()

    assert result.exit_code == 2
    assert "FILE..." in result.output


@pytest.mark.parametrize("path", sorted(EXAMPLES.glob("*.yaml")), ids=lambda path: path.name)
def test_the_examples_are_valid(path: Path) -> None:
    result = validate(str(path))

    assert result.exit_code == 0, result.output
