"""`tare compare`: tables, JSON and exit codes, from files that `--export` writes."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import orjson
import pytest
from click.testing import CliRunner, Result

from support.compared import run, spec, trial
from support.golden import assert_golden
from tare.cli.exits import Exit
from tare.cli.main import main
from tare.results.archive import pack

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tare.measure.trial import TrialSummary
    from tare.results.document import RunResults

GOLDEN = Path(__file__).parent / "golden" / "compare.yaml"
RATES = {"grid": {"phases.profiling.rate": [4, 8, 12, 16]}}


def repeated(scale: float = 1.0, *, failed: int = 0, trials: int = 3) -> list[TrialSummary]:
    """Trials of a hundred requests whose latencies grow with `scale`; each a little different."""
    return [
        trial(
            [None] * failed + [(50.0 + n % 7 + t / 10) * scale for n in range(failed, 100)],
            throughput=(10 + t / 50) / scale,
        )
        for t in range(trials)
    ]


BEFORE = run(*[repeated()] * 4, name="qwen-029", sweep=RATES, target={"serverVersion": "0.29.0"})
AFTER = run(
    repeated(1.2),
    repeated(0.8),
    repeated(failed=3),
    [],
    name="qwen-030",
    sweep=RATES,
    target={"serverVersion": "0.30.1"},
)


@pytest.fixture
def compare(tmp_path: Path) -> Any:
    """Write two runs into files and compare them."""

    def invoke(
        baseline: RunResults, candidate: RunResults, *options: str, width: int = 80
    ) -> Result:
        files = []
        for name, results in (("before", baseline), ("after", candidate)):
            path = tmp_path / f"{name}.json.gz"
            path.write_bytes(pack(results))
            files.append(str(path))
        return command(*files, *options, width=width)

    return invoke


def command(*arguments: str, width: int = 80) -> Result:
    return CliRunner().invoke(main, ["compare", *arguments], env={"COLUMNS": str(width)})


def test_the_tables_are_as_they_were_read_and_committed(compare: Any) -> None:
    result = compare(BEFORE, AFTER)
    assert_golden(GOLDEN, [line.rstrip() for line in result.output.splitlines()])


@pytest.mark.parametrize("width", [80, 120])
def test_no_number_and_no_verdict_is_cut_off(compare: Any, width: int) -> None:
    result = compare(run(repeated(trials=1)), run(repeated(1.2, trials=1)), width=width)
    rows = [line for line in result.output.splitlines() if line.startswith(" ") and line.strip()]
    assert max(map(len, rows)) <= width
    assert len([line for line in rows if line.rstrip().endswith("not conclusive")]) == 5
    assert "…" not in result.output
    [header] = [line for line in rows if line.split()[0] == "Metric"]
    assert ("Baseline" in header) == (width == 120)


@pytest.mark.parametrize(
    ("baseline", "candidate", "code"),
    [
        (repeated(), repeated(1.01), Exit.OK),
        (repeated(), repeated(0.5), Exit.OK),
        (repeated(), repeated(1.2), Exit.REGRESSION),
        (repeated(), repeated(1.2, failed=3), Exit.NOT_CONCLUSIVE),
        (repeated(), [], Exit.NOT_CONCLUSIVE),
    ],
    ids=["the same", "better", "worse", "unlike", "not measured"],
)
def test_the_exit_code_is_the_verdict(
    compare: Any,
    baseline: Sequence[TrialSummary],
    candidate: Sequence[TrialSummary],
    code: Exit,
) -> None:
    after = run(candidate) if candidate else run([], repeated(), sweep=TWO)
    before = run(baseline) if candidate else run(baseline, repeated(), sweep=TWO)
    assert compare(before, after).exit_code == code


TWO = {"grid": {"phases.profiling.rate": [4, 8]}}


def test_the_tolerance_decides_what_counts(compare: Any) -> None:
    before, after = run(repeated()), run(repeated(1.08))
    assert compare(before, after, "--tolerance", "5").exit_code == Exit.REGRESSION
    assert compare(before, after, "--tolerance", "10").exit_code == Exit.OK


def test_a_metric_can_be_asked_for(compare: Any) -> None:
    result = compare(run(repeated()), run(repeated(1.2)), "--metric", "request_latency:p99")
    assert "request_latency p99: lower is better" in result.output
    result = compare(run(repeated()), run(repeated(1.2)), "--metric", "request_throughput")
    assert "request_throughput: higher is better" in result.output
    assert result.exit_code == Exit.REGRESSION


def test_another_model_is_compared_when_allowed(compare: Any) -> None:
    other = run(repeated(), endpoint={**spec()["endpoint"], "model": "Qwen/Qwen3-14B"})
    refused = compare(run(repeated()), other)
    assert refused.exit_code == Exit.NOT_CONCLUSIVE
    assert "--allow endpoint.model" in refused.output
    assert compare(run(repeated()), other, "--allow", "endpoint.model").exit_code == Exit.OK


def test_json_holds_what_the_tables_show(compare: Any) -> None:
    result = compare(BEFORE, AFTER, "--format", "json")
    document = orjson.loads(result.stdout)
    assert document["schema"] == "tare.dev/comparison/v1"
    assert document["regression"] is True
    worse, better, unlike, failed = document["cells"]
    assert (worse["change"], better["change"]) == ("Worse", "Better")
    assert worse["primary"]["relative"] == pytest.approx(0.2)
    assert worse["primary"]["half_width"] > 0
    assert [cell["primary"] for cell in (unlike, failed)] == [None, None]
    assert unlike["refusals"][0].startswith("Success rates differ")
    assert result.exit_code == Exit.REGRESSION


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--metric", "ttft"], "there is no metric 'ttft'"),
        (["--metric", "time_to_first_tokens"], "did you mean 'time_to_first_token'?"),
        (["--metric", "time_to_first_token:p42"], "it has mean, p50, p90, p95, p99"),
        (["--metric", "request_throughput:p99"], "request_throughput has no statistic 'p99'"),
        (["--metric", "prompt_tokens"], "neither better nor worse"),
        (["--tolerance", "-1"], "-1"),
        (["--tolerance", "nan"], "nan is no number"),
        (["--tolerance", "inf"], "inf is no number"),
        (["--allow", "dataset.seed"], "endpoint.model"),
    ],
)
def test_options_that_mean_nothing_are_refused_with_what_is_allowed(
    compare: Any, options: list[str], said: str
) -> None:
    result = compare(run(repeated()), run(repeated()), *options)
    assert result.exit_code == Exit.INVALID
    assert said in " ".join(result.output.split())


def test_a_file_that_is_missing_or_something_else_is_refused(tmp_path: Path) -> None:
    missing, other = tmp_path / "gone.json.gz", tmp_path / "other.json.gz"
    other.write_text("no results")
    for path in (missing, other):
        result = command(str(path), str(path))
        assert result.exit_code == Exit.INVALID
        assert str(path) in result.stderr
        assert "Traceback" not in result.output


def test_a_cluster_that_cannot_be_read_is_a_failure(tmp_path: Path) -> None:
    config = tmp_path / "config"
    config.write_text("no: config")
    result = CliRunner().invoke(
        main, ["compare", "before", "after"], env={"KUBECONFIG": str(config)}
    )
    assert result.exit_code == Exit.FAILED
    assert result.stderr.strip()
    assert "Traceback" not in result.output
