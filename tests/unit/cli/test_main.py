from __future__ import annotations

import subprocess
import sys

import pytest
from click.testing import CliRunner

from tare import __version__
from tare.cli.main import main

_REPORT = """\
import sys
from tare.__main__ import main
sys.argv = ["tare", *{arguments!r}]
try:
    main()
except SystemExit:
    pass
print(*sorted(m for m in {watched!r} if m in sys.modules), file=sys.stderr)
"""


def imported(arguments: list[str], watched: list[str]) -> list[str]:
    """Which of the `watched` modules a command line imports."""
    code = _REPORT.format(arguments=arguments, watched=watched)
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=30
    )
    return done.stderr.splitlines()[-1].split()


def test_help_lists_every_command_and_the_roles_in_80_columns() -> None:
    result = CliRunner().invoke(main, ["--help"])
    assert result.exit_code == 0
    for word in (
        "demo",
        "run",
        "profile",
        "validate",
        "crd",
        "sim",
        "tare operator",
        "tare worker",
    ):
        assert word in result.output
    assert max(map(len, result.output.splitlines())) <= 80


@pytest.mark.parametrize("command", ["demo", "run", "profile", "validate", "crd"])
def test_every_command_has_a_help_of_its_own(command: str) -> None:
    result = CliRunner().invoke(main, [command, "--help"])
    assert result.exit_code == 0, result.output
    assert result.output.startswith(f"Usage: main {command}")


def test_the_version_is_that_of_the_package() -> None:
    assert CliRunner().invoke(main, ["--version"]).output == f"tare {__version__}\n"


def test_a_command_that_does_not_exist_is_refused_as_invalid() -> None:
    result = CliRunner().invoke(main, ["dmeo"])
    assert result.exit_code == 2
    assert "No such command 'dmeo'" in result.output


@pytest.mark.parametrize(
    ("file", "message"),
    [
        ("out.xlsx", "'out.xlsx' ends in none of .json, .csv, .json.gz"),
        ("nowhere/out.csv", "no folder 'nowhere'"),
    ],
)
def test_a_file_that_cannot_take_results_is_refused_before_the_run(file: str, message: str) -> None:
    result = CliRunner().invoke(main, ["run", "x.yaml", "--export", file])
    assert result.exit_code == 2
    assert message in result.output


@pytest.mark.parametrize("role", [["worker", "--help"], ["sim", "serve", "--help"]])
def test_a_role_starts_without_the_command_line_library(role: list[str]) -> None:
    assert imported(role, ["click", "rich", "yaml", "pydantic"]) == []


def test_help_waits_for_no_package_of_the_embedded_cluster() -> None:
    assert imported(["--help"], ["click", "kubernetes", "aiohttp", "kopf", "rich"]) == ["click"]


def test_the_operator_starts_without_the_command_line_library() -> None:
    assert "rich" not in imported(["operator"], ["click", "rich"])
