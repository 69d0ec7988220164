"""`tare profile` and `tare run` with flags, up to the manifest that they print."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import yaml
from click.testing import CliRunner

from support.golden import assert_golden
from tare.cli.main import main

if TYPE_CHECKING:
    from click.testing import Result

GOLDEN = Path(__file__).parent / "golden"
LEAST = ("--model", "m", "--url", "http://127.0.0.1:8000", "--request-count", "20")
QUICK_START = (
    *("--model", "your-model", "--url", "http://localhost:8000", "--endpoint-type", "chat"),
    *("--streaming", "--concurrency", "8", "--request-count", "100"),
    *("--reset-kv-cache", "--server-profiler"),
)
EVERYTHING = (
    *("--model", "m", "--url", "http://10.0.0.1:8000/v1", "--url", "http://10.0.0.2:8000"),
    *("--endpoint-type", "completions", "--request-rate", "2.5", "--concurrency", "16"),
    *("--request-count", "200", "--warmup-request-count", "20", "--warmup-duration", "30"),
    *("--isl", "256", "--osl", "64", "--cache-bust", "warmup_isolation_first_turn"),
    *("--num-prefix-prompts", "3", "--prefix-prompt-length", "128"),
    *("--reset-kv-cache-path", "/v1/admin/reset", "--reset-kv-cache-timeout-seconds", "10"),
    *("--server-profiler-start-path", "/v1/admin/start"),
    *("--server-profiler-stop-path", "/v1/admin/stop", "--server-profiler-timeout-seconds", "15"),
    *("--header", "Authorization: Bearer sk-secret-1", "--header", "X-Team:perf"),
)


def invoke(*arguments: str) -> Result:
    return CliRunner().invoke(main, arguments)


@pytest.mark.parametrize("command", ["profile", "run"])
@pytest.mark.parametrize(
    ("arguments", "golden"), [(QUICK_START, "quick-start.yaml"), (EVERYTHING, "every-flag.yaml")]
)
def test_a_dry_run_prints_the_manifest_and_nothing_else(
    command: str, arguments: tuple[str, ...], golden: str
) -> None:
    result = invoke(command, *arguments, "--dry-run")
    assert result.exit_code == 0, result.output
    assert_golden(GOLDEN / golden, yaml.safe_load(result.stdout))


def test_a_secret_is_in_nothing_that_is_printed_and_the_way_to_create_it_is() -> None:
    result = invoke("profile", *EVERYTHING, "--dry-run")
    assert "sk-secret-1" not in result.output
    assert "perf" not in result.output
    assert (
        "kubectl create secret generic from-flags-headers --from-literal=authorization='…' "
        "--from-literal=x-team='…'"
    ) in result.stderr


def test_without_a_header_nothing_is_said_beside_the_manifest() -> None:
    assert invoke("profile", *QUICK_START, "--dry-run").stderr == ""


def test_a_printed_manifest_is_valid_by_itself(tmp_path: Path) -> None:
    path = tmp_path / "run.yaml"
    path.write_text(invoke("profile", *QUICK_START, "--dry-run").stdout)
    assert invoke("validate", str(path)).output == "from-flags: valid, 1 cell x 1 trial\n"


@pytest.mark.parametrize("command", ["profile", "run"])
def test_what_a_run_cannot_do_without_is_asked_for_by_name(command: str) -> None:
    result = invoke(command, "--model", "m")
    assert result.exit_code == 2
    assert "--url and --request-count missing" in result.stderr


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--cache-bust", "prefix"), "'--cache-bust': 'prefix' is not one of 'none', 'system_pr"),
        (("--endpoint-type", "embeddings"), "'embeddings' is not one of 'chat', 'completions'"),
        (("--isl", "many"), "'--isl': 'many' is not a valid integer"),
        (("--warmup-request-count", "0"), "--warmup-request-count: 0 is no warm-up"),
        (("--reset-kv-cache-path", "x"), "--reset-kv-cache-path: 'x' does not fit; start it with"),
    ],
)
def test_a_bad_value_is_exit_code_2_with_its_flag(arguments: tuple[str, ...], words: str) -> None:
    result = invoke("profile", *LEAST, *arguments, "--dry-run")
    assert result.exit_code == 2
    assert words in result.stderr
    assert result.stdout == ""


def test_two_targets_of_the_marker_are_refused_and_not_settled_by_the_last() -> None:
    targets = ("--cache-bust", "system_prefix", "--cache-bust", "warmup_isolation_system")
    result = invoke("profile", *LEAST, *targets)
    assert result.exit_code == 2
    assert "system_prefix and warmup_isolation_system are given" in result.stderr


@pytest.mark.parametrize("text", ["Bearer sk-secret-1", "A b: sk-secret-1", "A: sk-secret-1\nB: c"])
def test_a_header_that_cannot_be_read_is_named_by_its_number_alone(text: str) -> None:
    result = invoke("profile", *LEAST, "--header", "X-A: 1", "--header", text)
    assert result.exit_code == 2
    assert "header 2 is not of the form 'Name: value'" in result.stderr
    assert "sk-secret-1" not in result.output


def test_a_system_prompt_comes_from_its_file_byte_by_byte(tmp_path: Path) -> None:
    path = tmp_path / "system.txt"
    path.write_bytes("Du hilfst – immer.\n".encode())
    result = invoke("profile", *LEAST, "--system-prompt-file", str(path), "--dry-run")
    prefix = yaml.safe_load(result.stdout)["spec"]["dataset"]["prefixPrompts"]
    assert prefix == {"systemPrompt": "Du hilfst – immer.\n"}


@pytest.mark.parametrize(
    ("content", "words"), [(None, "cannot be read: No such file"), (b"\xff", "is no UTF-8 text")]
)
def test_a_system_prompt_that_cannot_be_read_is_refused(
    tmp_path: Path, content: bytes | None, words: str
) -> None:
    path = tmp_path / "system.txt"
    if content is not None:
        path.write_bytes(content)
    result = invoke("profile", *LEAST, "--system-prompt-file", str(path))
    assert result.exit_code == 2
    assert f"'{path}' {words}" in result.stderr


def test_a_file_takes_no_flag_that_says_what_it_says_itself() -> None:
    result = invoke("run", "run.yaml", *LEAST, "--dry-run")
    assert result.exit_code == 2
    assert "--model, --request-count, --dry-run: FILE says this already" in result.stderr
