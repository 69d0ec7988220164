from __future__ import annotations

import io
import json
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest
from rich.console import Console

from support.compared import run, trial
from support.memory_cluster import MemoryCluster
from support.summaries import cells, measured, summary
from support.trials import OWNER
from tare.cli.exits import Exit
from tare.cli.outcome import show_outcome
from tare.results.comparison import compare_runs
from tare.results.store import ResultStore

if TYPE_CHECKING:
    from pathlib import Path

    from tare.kube.port import Document

FAST, SLOW = trial([100.0, 110.0] * 30), trial([200.0, 210.0] * 30)


@pytest.fixture
def cluster() -> MemoryCluster:
    return MemoryCluster()


def finished(phase: str, *conditions: tuple[str, str, str]) -> Document:
    """A run that is over, with (type, status, message) of its conditions."""
    rows: list[dict[str, Any]] = [
        {"type": kind, "status": status, "reason": "Because", "message": message}
        for kind, status, message in conditions
    ]
    metadata = {"name": OWNER.name, "namespace": OWNER.namespace, "uid": OWNER.uid}
    return {"metadata": metadata, "status": {"phase": phase, "conditions": rows}}


async def printed(cluster: MemoryCluster, run: Document) -> tuple[Exit, str]:
    output = io.StringIO()
    code = await show_outcome(Console(file=output, width=120), cluster, run)
    return code, output.getvalue()


async def test_a_run_that_worked_shows_its_table_and_its_last_words(
    cluster: MemoryCluster,
) -> None:
    await ResultStore(cluster).store_summary(summary(measured(0), cells_of=cells(1)))
    run = finished("Succeeded", ("Finished", "True", "1 of 1 cells measured"))
    code, text = await printed(cluster, run)
    assert code is Exit.OK
    assert "98/100" in text
    assert "Succeeded  1 of 1 cells measured" in text


async def test_a_run_that_was_compared_shows_the_comparison_and_not_its_sentence_twice(
    cluster: MemoryCluster,
) -> None:
    candidate = run([SLOW] * 3, name="after")
    found = compare_runs(run([FAST] * 3), candidate)
    document = replace(candidate.summary, run=OWNER, comparison=found)
    await ResultStore(cluster).store_summary(document)
    code, text = await printed(
        cluster, finished("Succeeded", ("NoRegression", "False", found.message))
    )
    assert code is Exit.REGRESSION
    assert "time_to_first_token mean: lower is better, 5 % is tolerated" in text
    assert text.count("Regression: time_to_first_token mean is worse") == 1


async def test_a_run_that_could_not_be_compared_says_why(cluster: MemoryCluster) -> None:
    await ResultStore(cluster).store_summary(summary(measured(0), cells_of=cells(1)))
    why = "the copy of before's results is gone or damaged"
    code, text = await printed(cluster, finished("Succeeded", ("NoRegression", "Unknown", why)))
    assert code is Exit.NOT_CONCLUSIVE
    assert f"NoRegression=Unknown: {why}" in text


async def test_the_results_are_written_in_the_format_that_the_file_name_asks_for(
    cluster: MemoryCluster, tmp_path: Path
) -> None:
    await ResultStore(cluster).store_summary(summary(measured(0), cells_of=cells(1)))
    files = [tmp_path / "out.json", tmp_path / "out.csv"]
    console = Console(file=io.StringIO())
    await show_outcome(console, cluster, finished("Succeeded"), export=files)
    assert json.loads(files[0].read_text())["schema"] == "tare.dev/summary/v1"
    assert files[1].read_text().startswith("namespace,run,cell,")


async def test_a_file_that_cannot_be_written_is_named_and_the_others_are_written(
    cluster: MemoryCluster, tmp_path: Path
) -> None:
    await ResultStore(cluster).store_summary(summary(measured(0), cells_of=cells(1)))
    taken, free = tmp_path / "taken.csv", tmp_path / "free.html"
    taken.mkdir()
    output = io.StringIO()
    console = Console(file=output, width=200)
    code = await show_outcome(console, cluster, finished("Succeeded"), export=[taken, free])
    assert code is Exit.FAILED
    assert "98/100" in output.getvalue(), "the table is shown all the same"
    assert f"{taken} was not written: Is a directory" in output.getvalue()
    assert free.read_text().startswith("<!doctype html>")


async def test_what_makes_the_numbers_doubtful_is_said_below_them(cluster: MemoryCluster) -> None:
    run = finished(
        "Succeeded",
        ("MeasurementSound", "False", "cell 0: the event loop lagged"),
        ("CacheAsPlanned", "Unknown", "cell 0: the server did not confirm it"),
        ("GoalsMet", "True", "Every goal is met."),
    )
    _, text = await printed(cluster, run)
    assert "MeasurementSound=False: cell 0: the event loop lagged" in text
    assert "CacheAsPlanned=Unknown: cell 0: the server did not confirm it" in text
    assert "GoalsMet" not in text


async def test_missed_goals_are_named_and_give_exit_code_3(cluster: MemoryCluster) -> None:
    run = finished("Succeeded", ("GoalsMet", "False", "Cell 1 (rate=8): too slow."))
    code, text = await printed(cluster, run)
    assert code is Exit.GOALS_MISSED
    assert "GoalsMet=False: Cell 1 (rate=8): too slow." in text


async def test_a_refused_run_shows_why_without_a_table(cluster: MemoryCluster) -> None:
    run = finished("Failed", ("Accepted", "False", "spec.endpoint.url: not on the allow-list"))
    code, text = await printed(cluster, run)
    assert code is Exit.INVALID
    assert "spec.endpoint.url: not on the allow-list" in text
