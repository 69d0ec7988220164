"""Selectors beyond what a whole server shows: grammar and refusals."""

from __future__ import annotations

import pytest

from tare.devcluster.apiserver.errors import ApiError
from tare.devcluster.apiserver.selectors import field_selector, label_selector, match_labels


def labelled(**labels: str) -> dict[str, dict[str, dict[str, str]]]:
    return {"metadata": {"labels": labels}}


@pytest.mark.parametrize(
    ("selector", "matches"),
    [
        ("", True),
        ("a=1", True),
        ("a==1", True),
        ("a = 1", True),
        ("a!=1", False),
        ("b!=1", True),
        ("a in (1, 2)", True),
        ("a in (2,3)", False),
        ("a notin (1)", False),
        ("b notin (1)", True),
        ("a", True),
        ("!a", False),
        ("!b", True),
        ("a=1,c in (x,y),!z", True),
        ("a=", False),
    ],
)
def test_a_label_selector_is_read_as_kubernetes_does(selector: str, *, matches: bool) -> None:
    assert label_selector(selector)(labelled(a="1", c="y")) is matches


@pytest.mark.parametrize("selector", ["a=b=c", "a in", "=x", "a in (b"])
def test_a_malformed_label_selector_is_a_bad_request(selector: str) -> None:
    with pytest.raises(ApiError) as refused:
        label_selector(selector)

    assert refused.value.code == 400


@pytest.mark.parametrize(
    ("selector", "matches"),
    [
        ("status.phase=Running", True),
        ("status.phase!=Running", False),
        ("spec.nodeName=", True),
        ("status.flag=true", True),
    ],
)
def test_a_field_selector_compares_texts(selector: str, *, matches: bool) -> None:
    fields = {"status.phase", "spec.nodeName", "status.flag"}
    document = {"status": {"phase": "Running", "flag": True}}

    assert field_selector(selector, fields)(document) is matches


def test_an_empty_selector_of_a_service_matches_nothing() -> None:
    assert not match_labels({}, labelled(a="1"))
    assert match_labels({"a": "1"}, labelled(a="1", b="2"))
