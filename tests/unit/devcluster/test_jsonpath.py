"""The JSONPath of printer columns."""

from __future__ import annotations

from typing import Any

import pytest

from tare.devcluster.apiserver.jsonpath import find

DOCUMENT = {
    "metadata": {"labels": {"tare.dev/cell": "3"}},
    "status": {
        "conditions": [
            {"type": "Ready", "status": "True", "weight": 2},
            {"type": "Failed", "status": "False", "weight": 1},
        ],
        "replicas": 0,
    },
}


@pytest.mark.parametrize(
    ("path", "found"),
    [
        (".status.replicas", [0]),
        ("{.status.replicas}", [0]),
        ('.status.conditions[?(@.type=="Ready")].status', ["True"]),
        (".status.conditions[?(@.type=='Failed')].status", ["False"]),
        ('.status.conditions[?(@.type!="Ready")].type', ["Failed"]),
        (".status.conditions[?(@.weight==2)].type", ["Ready"]),
        (".status.conditions[0].type", ["Ready"]),
        (".status.conditions[-1].type", ["Failed"]),
        (".status.conditions[*].type", ["Ready", "Failed"]),
        (".metadata.labels.tare\\.dev/cell", ["3"]),
        (".metadata.labels['tare.dev/cell']", ["3"]),
        (".status.nothing.here", []),
        (".status.conditions[9].type", []),
        ('.status.conditions[?(@.type=="None")].status', []),
    ],
)
def test_a_path_selects(path: str, found: list[Any]) -> None:
    assert find(path, DOCUMENT) == found


def test_an_unsupported_path_is_named() -> None:
    with pytest.raises(ValueError, match=r"unsupported JSONPath '\.a\[\?\(@\.b>1\)\]'"):
        find(".a[?(@.b>1)]", DOCUMENT)
