from __future__ import annotations

import json
from typing import Any

from tare.api.spec import BenchmarkRunSpec
from tare.results.specs import told


def spec(**fields: Any) -> BenchmarkRunSpec:
    """A small run; keyword arguments override fields of its endpoint."""
    endpoint = {"url": "http://a:8000", "model": "m", **fields}
    document = {
        "endpoint": {name: value for name, value in endpoint.items() if value is not None},
        "dataset": {"prompts": {"isl": 64, "osl": 8}},
        "phases": [
            {
                "name": "p",
                "kind": "profiling",
                "type": "concurrency",
                "concurrency": 1,
                "requests": 1,
            }
        ],
    }
    return BenchmarkRunSpec.model_validate_json(json.dumps(document))


def test_values_are_told_as_a_manifest_spells_them() -> None:
    before = spec(requestTimeoutSeconds=600)
    after = spec(url=None, urls=["http://a:8000", "http://b:8000"], requestTimeoutSeconds=0.5)
    assert told(before, after) == (
        "endpoint.requestTimeoutSeconds: 600 -> 0.5",
        "endpoint.url: http://a:8000 -> unset",
        "endpoint.urls: unset -> http://a:8000, http://b:8000",
    )


def test_the_value_of_a_header_is_never_told() -> None:
    before = spec(headers=[{"name": "X-Key", "value": "hush"}])
    after = spec(headers=[{"name": "X-Key", "value": "other"}])
    assert told(before, after) == ("endpoint.headers: one value -> another",)


def test_a_long_value_is_cut() -> None:
    [line] = told(spec(), spec(url="http://" + "a" * 200))
    assert len(line) < 120
    assert line.endswith("…")
