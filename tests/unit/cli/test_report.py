from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from support.reports import run_results
from tare.cli.main import main
from tare.results.archive import pack


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "none"))
    Path("run.json.gz").write_bytes(pack(run_results()))
    return tmp_path


def report(*arguments: str) -> Result:
    return CliRunner().invoke(main, ["report", *arguments])


def test_a_report_is_named_after_its_run_unless_said(folder: Path) -> None:
    result = report("run.json.gz")
    assert (result.exit_code, result.stdout) == (0, "qwen.html\n")
    assert (folder / "qwen.html").read_text().startswith("<!doctype html>")


def test_the_ending_of_a_file_says_what_is_written_to_it(folder: Path) -> None:
    result = report("run.json.gz", "-o", "a.html", "-o", "b.csv", "-o", "c.json", "-o", "d.json.gz")
    assert (result.exit_code, result.stdout) == (0, "a.html\nb.csv\nc.json\nd.json.gz\n")
    assert (folder / "b.csv").read_text().startswith("namespace,run,cell,")
    assert (folder / "c.json").read_text().startswith("{")
    assert (folder / "d.json.gz").read_bytes() == (folder / "run.json.gz").read_bytes()


@pytest.mark.usefixtures("folder")
def test_a_file_that_cannot_be_read_is_named() -> None:
    missing = report("nowhere.json.gz")
    assert (missing.exit_code, missing.stderr) == (
        2,
        "nowhere.json.gz: No such file or directory\n",
    )
    Path("other.json.gz").write_text("?")
    other = report("other.json.gz")
    assert other.exit_code == 2
    assert "other.json.gz: it is no gzip file" in other.stderr
    assert "--export NAME.json.gz" in other.stderr


@pytest.mark.usefixtures("folder")
def test_a_file_that_cannot_be_written_is_named() -> None:
    Path("qwen.html").mkdir()
    result = report("run.json.gz")
    assert (result.exit_code, result.stderr) == (1, "qwen.html was not written: Is a directory\n")


@pytest.mark.usefixtures("folder")
def test_a_format_that_does_not_exist_is_refused_before_anything_is_read() -> None:
    result = report("nowhere.json.gz", "-o", "a.pdf")
    assert result.exit_code == 2
    assert "'a.pdf' ends in none of .json, .csv, .json.gz, .html" in result.stderr


@pytest.mark.usefixtures("folder")
def test_a_run_is_looked_for_in_the_cluster_which_must_be_there() -> None:
    result = report("qwen")
    assert result.exit_code == 1
    assert "no usable Kubernetes configuration" in result.stderr
