"""Every query of the dashboard, asked of a real Prometheus that has seen a run."""

from __future__ import annotations

import re
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from support.prometheus import SCRAPES, Prometheus, prometheus
from support.replay import Replay, serve
from tare.telemetry.dashboards.run import run_dashboard

if TYPE_CHECKING:
    from collections.abc import Iterator

RECORDING = Path(__file__).parent / "recorded" / "quickstart.jsonl"
DASHBOARD = run_dashboard()
TARGETS = [
    pytest.param(target, id=f"{panel['title']} {target['refId']}")
    for panel in DASHBOARD["panels"]
    for target in panel.get("targets", ())
]
CHOSEN = {
    "$namespace": "bench",
    "$run": "quickstart",
    "$__rate_interval": f"{int(4 * SCRAPES * 1000)}ms",
}
"""What Grafana puts in place of variables; the interval is four scrapes, as there."""


@dataclass(frozen=True)
class Seen:
    """A Prometheus that has scraped the whole run."""

    api: Prometheus
    start: float
    end: float


@pytest.fixture(scope="module")
def seen(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Seen]:
    replay = Replay(RECORDING)
    start = time.time()
    folder = tmp_path_factory.mktemp("prometheus")
    with serve(replay) as port, prometheus(folder, target=port) as api:
        assert replay.ended.wait(60)
        yield Seen(api, start, time.time())


def chosen(text: str) -> str:
    for name, value in CHOSEN.items():
        text = text.replace(name, value)
    assert "$" not in text
    return text


@pytest.mark.parametrize("target", TARGETS)
def test_a_panel_has_data(seen: Seen, target: dict[str, Any]) -> None:
    expression = chosen(target["expr"])
    if target["instant"]:
        values = [series["value"] for series in seen.api.query(expression)]
    else:
        found = seen.api.query_range(expression, start=seen.start, end=seen.end)
        values = [value for series in found for value in series["values"]]
    assert [value for _, value in values if value != "NaN"], expression


@pytest.mark.parametrize("variable", DASHBOARD["templating"]["list"][1:], ids=lambda v: v["name"])
def test_a_choice_offers_the_run(seen: Seen, variable: dict[str, Any]) -> None:
    ask = re.fullmatch(r"label_values\((.+), (\w+)\)", variable["query"]["query"])
    assert ask
    assert seen.api.label_values(ask[2], chosen(ask[1])) == [CHOSEN[f"${variable['name']}"]]
