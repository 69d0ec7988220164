"""The command line of `tare sim serve`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tare.sim.models.load import load_server_model
from tare.sim.serve.main import main
from tare.sim.serve.options import Scheduler, parse_options

if TYPE_CHECKING:
    from tare.sim.core.engine import EngineSettings

MS = 1_000_000


def engine_of(*arguments: str) -> EngineSettings:
    (choice,) = parse_options(arguments, {}).engines.values()
    return choice.settings


def test_times_are_read_with_their_unit() -> None:
    for text in ("20ms", "0.02s", "0.02", "20000us"):
        engine = engine_of("--itl", text)
        assert engine.cost.step == 20 * MS
    assert engine_of("--kv-token-time", "1.5ns").cost.kv_token == pytest.approx(1.5)


def test_the_time_scale_makes_the_engine_faster_in_every_respect() -> None:
    names = (
        "ttft-overhead",
        "itl",
        "sequence-time",
        "kv-token-time",
        "attention-time",
        "token-time",
    )
    times = [word for name in names for word in (f"--{name}", "10ms")]
    engine = engine_of(*times, "--prefill-rate", "1000", "--time-scale", "10")
    assert engine.overhead_ns == MS
    cost = engine.cost
    assert {cost.step, cost.sequence, cost.kv_token, cost.attention, cost.token} == {MS}
    assert cost.prefill == pytest.approx(0.1 * MS)


def test_a_server_model_gives_scheduler_size_and_times_which_the_scale_divides() -> None:
    arguments = ["--server-model", "board@max_num_seqs=7", "--time-scale", "10"]
    (choice,) = parse_options(arguments, {}).engines.values()
    model = load_server_model("board@max_num_seqs=7").settings
    assert choice.scheduler is Scheduler.SLOTS
    assert choice.settings.max_num_seqs == 7
    assert model.patience_ns is not None
    assert choice.settings.patience_ns == model.patience_ns / 10
    assert choice.settings.overhead_ns == model.overhead_ns / 10
    assert choice.settings.cost.step == model.cost.step / 10
    unscaled = engine_of("--server-model", "a100-qwen3-8b")
    assert unscaled == load_server_model("a100-qwen3-8b").settings


def test_models_share_an_engine_unless_each_is_a_server_model_by_its_name() -> None:
    shared = parse_options(["--model", "a", "--model", "b"], {}).engines
    assert shared["a"] is shared["b"]
    names = ["board", "board@max_num_seqs=7"]
    models = [word for name in names for word in ("--model", name)]
    own = parse_options(["--models-by-name", *models], {}).engines
    assert [own[name].settings.max_num_seqs for name in names] == [10, 7]


@pytest.mark.parametrize(
    ("arguments", "environ", "host"),
    [
        ([], {}, "127.0.0.1"),
        ([], {"POD_IP": "127.0.0.7"}, "127.0.0.7"),
        (["--host", "0.0.0.0"], {"POD_IP": "127.0.0.7"}, "0.0.0.0"),
    ],
)
def test_a_pod_listens_on_its_own_address_unless_told_otherwise(
    arguments: list[str], environ: dict[str, str], host: str
) -> None:
    assert parse_options(arguments, environ).host == host


def test_the_first_of_several_models_gives_the_name() -> None:
    assert parse_options(["--model", "a", "--model", "b"], {}).models == ("a", "b")
    assert parse_options([], {}).models == ("tare-sim",)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--itl", "fast"], "'fast' is no time; write 20ms, 0.02s or 0.02"),
        (["--prefill-rate", "0"], "'0' is no number above 0"),
        (["--max-num-seqs", "1.5"], "'1.5' is no whole number above 0"),
        (["--port", "70000"], "'70000' is no port: 0 to 65535"),
        (["--kv-blocks", "10"], "10 KV blocks of 32 tokens are too few for one request"),
        (["--faults", '{"reset": "odd"}'], "reset: 'odd' is neither a status"),
        (["--faults", "{"], "unexpected end of data"),
        (["--server-style", "tgi"], "invalid choice: 'tgi'"),
        (["--models-by-name", "--model", "boat"], "did you mean board"),
        (["--models-by-name", "--server-model", "board"], "drop --server-model"),
        (["--server-model", "boat"], "did you mean board"),
        (
            ["--server-model", "board", "--itl", "5ms"],
            "--itl is what the server model says already",
        ),
        (
            ["--server-model", "chapter-4@kv_blocks=100"],
            "100 KV blocks of 1 tokens are too few for one request",
        ),
        (["--replicas", "0"], "'0' is no whole number above 0"),
        (
            ["--port", "65535", "--replicas", "2"],
            "need ports up to 65536, and the last one is 65535",
        ),
    ],
)
def test_a_mistake_is_one_sentence_and_exit_code_2(
    arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(arguments) == 2
    assert message in capsys.readouterr().err


def test_the_help_documents_faults_and_admin_routes(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--help"]) == 0
    shown = capsys.readouterr().out
    for word in ("/admin/counters", "/admin/faults", "error_event", "silent", "--time-scale"):
        assert word in shown
