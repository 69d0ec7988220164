"""`tare crd` prints what `crds/` holds."""

from __future__ import annotations

from pathlib import Path

from click.testing import CliRunner

from tare.cli.crd import command


def test_the_command_prints_the_committed_crd() -> None:
    committed = Path(__file__).parents[3] / "crds" / "benchmarkruns.tare.dev.yaml"

    result = CliRunner().invoke(command)

    assert result.exit_code == 0
    assert result.output == committed.read_text()
