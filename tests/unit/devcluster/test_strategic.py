"""Strategic merge patches on the schemas of built-in kinds."""

from __future__ import annotations

from typing import Any

import pytest

from tare.devcluster.apiserver.builtin import definitions
from tare.devcluster.apiserver.errors import ApiError
from tare.devcluster.apiserver.strategic import strategic_merge_patch

POD = definitions().schema("io.k8s.api.core.v1.Pod")


def pod(**spec: Any) -> Any:
    return {"metadata": {"name": "p", "finalizers": ["a", "b"]}, "spec": spec}


def merged(patch: Any, **spec: Any) -> Any:
    return strategic_merge_patch(POD, pod(**spec), patch)["spec"]


def test_containers_merge_by_name() -> None:
    spec = merged(
        {"spec": {"containers": [{"name": "b", "image": "new"}]}},
        containers=[{"name": "a", "image": "x"}, {"name": "b", "image": "y", "args": ["1"]}],
    )

    assert spec["containers"] == [
        {"name": "a", "image": "x"},
        {"name": "b", "image": "new", "args": ["1"]},
    ]


def test_nested_lists_merge_by_their_own_key() -> None:
    env = [{"name": "A", "value": "1"}, {"name": "B", "value": "2"}]
    patch = [{"name": "B", "value": "3"}, {"name": "A", "$patch": "delete"}]

    spec = merged(
        {"spec": {"containers": [{"name": "c", "env": patch}]}},
        containers=[{"name": "c", "env": env}],
    )

    assert spec["containers"][0]["env"] == [{"name": "B", "value": "3"}]


def test_a_list_without_a_key_is_replaced() -> None:
    spec = merged(
        {"spec": {"containers": [{"name": "c", "args": ["2"]}]}},
        containers=[{"name": "c", "args": ["1", "1"]}],
    )

    assert spec["containers"] == [{"name": "c", "args": ["2"]}]


def test_a_replace_directive_drops_what_was_there() -> None:
    spec = merged(
        {"spec": {"containers": [{"$patch": "replace"}, {"name": "n"}]}},
        containers=[{"name": "c"}],
    )

    assert spec["containers"] == [{"name": "n"}]


def test_primitives_are_added_and_deleted_by_value() -> None:
    patch = {
        "metadata": {"finalizers": ["c"], "$deleteFromPrimitiveList/finalizers": ["a"]},
    }

    result = strategic_merge_patch(POD, pod(), patch)

    assert result["metadata"]["finalizers"] == ["b", "c"]


def test_the_patchs_order_wins_for_the_items_it_names() -> None:
    patch = {
        "spec": {
            "$setElementOrder/containers": [{"name": "b"}, {"name": "a"}],
            "containers": [{"name": "b", "image": "i"}],
        }
    }

    spec = merged(patch, containers=[{"name": "x"}, {"name": "a"}])

    assert [item["name"] for item in spec["containers"]] == ["b", "a", "x"]


def test_retained_keys_drop_the_others() -> None:
    patch = {"spec": {"volumes": [{"name": "v", "$retainKeys": ["name", "secret"], "secret": {}}]}}

    spec = merged(patch, volumes=[{"name": "v", "emptyDir": {}}])

    assert spec["volumes"] == [{"name": "v", "secret": {}}]


def test_the_stored_object_is_not_touched() -> None:
    stored = pod(containers=[{"name": "c", "image": "x"}])

    strategic_merge_patch(POD, stored, {"spec": {"containers": [{"name": "c", "image": "y"}]}})

    assert stored["spec"]["containers"][0]["image"] == "x"


def test_an_item_without_its_key_is_a_bad_request() -> None:
    with pytest.raises(ApiError) as refused:
        merged({"spec": {"containers": [{"image": "i"}]}}, containers=[])

    assert "does not contain declared merge key: name" in refused.value.message
