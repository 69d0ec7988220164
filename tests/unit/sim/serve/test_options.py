"""The command line of `tare sim serve`."""

from __future__ import annotations

import pytest

from tare.sim.serve.main import main
from tare.sim.serve.options import parse_options

MS = 1_000_000


def test_times_are_read_with_their_unit() -> None:
    for text in ("20ms", "0.02s", "0.02", "20000us"):
        engine = parse_options(["--itl", text], {}).engine
        assert engine.inter_token_ns == 20 * MS


def test_the_time_scale_makes_the_engine_faster_in_every_respect() -> None:
    arguments = ["--ttft-overhead", "20ms", "--itl", "10ms", "--prefill-rate", "1000"]
    engine = parse_options([*arguments, "--time-scale", "10"], {}).engine
    assert (engine.ttft_overhead_ns, engine.inter_token_ns) == (2 * MS, MS)
    assert engine.prefill_ns_per_token == pytest.approx(0.1 * MS)


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
        (["--kv-blocks", "10"], "--kv-blocks 10 of 32 tokens are too few for one request"),
        (["--faults", '{"reset": "odd"}'], "reset: 'odd' is neither a status"),
        (["--faults", "{"], "unexpected end of data"),
        (["--server-style", "tgi"], "invalid choice: 'tgi'"),
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
