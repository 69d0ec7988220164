"""The chart's alerts, by `promtool`: they are well-formed, and each fires when it should."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
import yaml

from support.chart import CHART
from support.tools import run

if TYPE_CHECKING:
    from pathlib import Path

RULES = CHART / "files" / "rules.yaml"
FIRING: dict[str, tuple[dict[str, str], dict[str, str]]] = {
    "TareOperatorAbsent": ({"up": "1x30"}, {}),
    "TareProfilerNotStopped": (
        {'tare_hook_calls_total{hook="profiler-stop", outcome="refused"}': "0 0 1 1x27"},
        {"hook": "profiler-stop", "outcome": "refused"},
    ),
    "TareInboxRefusesTokens": (
        {'tare_operator_inbox_requests_total{message="wait", code="401"}': "0+1x30"},
        {"message": "wait", "code": "401"},
    ),
    "TareOperatorLags": (
        {
            'tare_operator_event_loop_lag_seconds_bucket{le="0.1"}': "0x30",
            'tare_operator_event_loop_lag_seconds_bucket{le="1.0"}': "0+10x30",
            'tare_operator_event_loop_lag_seconds_bucket{le="+Inf"}': "0+10x30",
        },
        {},
    ),
    "TareSeriesEvicted": ({"tare_series_evicted_total": "0+5x30"}, {}),
}
"""Alert to the series that make it fire within half an hour, one value a minute, and its labels."""
QUIET = {
    "tare_operator_workers_connected": "0x30",
    'tare_hook_calls_total{hook="profiler-stop", outcome="confirmed"}': "0+3x30",
    'tare_hook_calls_total{hook="reset", outcome="busy"}': "0+3x30",
    'tare_operator_inbox_requests_total{message="wait", code="200"}': "0+9x30",
    'tare_operator_event_loop_lag_seconds_bucket{le="0.1"}': "0+10x30",
    'tare_operator_event_loop_lag_seconds_bucket{le="+Inf"}': "0+10x30",
    "tare_series_evicted_total": "0x30",
}
"""An operator at work."""
RULE = {rule["alert"]: rule for rule in yaml.safe_load(RULES.read_text())["groups"][0]["rules"]}


def unit_test(tmp_path: Path, series: dict[str, str], alerts: list[dict[str, Any]]) -> str:
    """Run promtool's own unit test; returns what it found wrong."""
    document = {
        "rule_files": [str(RULES)],
        "tests": [
            {
                "interval": "1m",
                "input_series": [{"series": key, "values": text} for key, text in series.items()],
                "alert_rule_test": alerts,
            }
        ],
    }
    path = tmp_path / "test.yaml"
    path.write_text(json.dumps(document))
    done = run("promtool", "test", "rules", str(path))
    return "" if done.returncode == 0 else done.stdout + done.stderr


def test_promtool_finds_nothing_wrong_with_the_rules() -> None:
    done = run("promtool", "check", "rules", str(RULES))
    assert done.returncode == 0, done.stdout + done.stderr


def test_every_alert_is_tested() -> None:
    assert FIRING.keys() == RULE.keys()


@pytest.mark.parametrize("name", FIRING)
def test_an_alert_fires(name: str, tmp_path: Path) -> None:
    series, labels = FIRING[name]
    rule = RULE[name]
    texts = {
        key: text.replace("{{ $labels.outcome }}", labels.get("outcome", ""))
        for key, text in rule["annotations"].items()
    }
    alert = {"exp_labels": {**rule["labels"], **labels}, "exp_annotations": texts}
    expected = {"eval_time": "16m", "alertname": name, "exp_alerts": [alert]}
    assert unit_test(tmp_path, series, [expected]) == ""


@pytest.mark.parametrize("name", FIRING)
def test_an_alert_is_quiet_while_all_is_well(name: str, tmp_path: Path) -> None:
    nothing: list[dict[str, Any]] = []
    quiet = {"eval_time": "20m", "alertname": name, "exp_alerts": nothing}
    assert unit_test(tmp_path, QUIET, [quiet]) == ""
