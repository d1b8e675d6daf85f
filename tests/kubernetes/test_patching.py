# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
from __future__ import annotations

import pytest

from tests.support.kubernetes import patching
from tests.support.kubernetes.refusals import RefusedError

POD = {
    "metadata": {"finalizers": ["a/b"], "labels": {"x": "1"}},
    "spec": {
        "containers": [
            {"name": "a", "image": "1", "env": [{"name": "X", "value": "1"}]},
            {"name": "b", "image": "2"},
        ],
        "tolerations": [{"key": "k"}],
    },
    "status": {"conditions": [{"type": "Ready", "status": "False"}]},
}


@pytest.mark.parametrize(
    ("operations", "result"),
    [
        ([{"op": "add", "path": "/a", "value": 1}], {"a": 1, "l": [1, 2], "o": {"x/y": 1}}),
        ([{"op": "add", "path": "/l/-", "value": 3}], {"l": [1, 2, 3], "o": {"x/y": 1}}),
        ([{"op": "add", "path": "/l/0", "value": 0}], {"l": [0, 1, 2], "o": {"x/y": 1}}),
        ([{"op": "remove", "path": "/l/0"}], {"l": [2], "o": {"x/y": 1}}),
        ([{"op": "replace", "path": "/o/x~1y", "value": 5}], {"l": [1, 2], "o": {"x/y": 5}}),
        ([{"op": "move", "from": "/l", "path": "/m"}], {"m": [1, 2], "o": {"x/y": 1}}),
        ([{"op": "copy", "from": "/l/1", "path": "/m"}], {"l": [1, 2], "o": {"x/y": 1}, "m": 2}),
        ([{"op": "test", "path": "/l/0", "value": 1}], {"l": [1, 2], "o": {"x/y": 1}}),
        ([{"op": "replace", "path": "", "value": {}}], {}),
    ],
)
def test_json_patch(operations, result):
    target = {"l": [1, 2], "o": {"x/y": 1}}
    assert patching.apply(patching.JSON, target, operations) == result
    assert target == {"l": [1, 2], "o": {"x/y": 1}}


@pytest.mark.parametrize(
    "operation",
    [
        {"op": "test", "path": "/a", "value": 2},
        {"op": "remove", "path": "/missing"},
        {"op": "replace", "path": "/missing", "value": 1},
        {"op": "add", "path": "/missing/below", "value": 1},
        {"op": "add", "path": "/l/7", "value": 1},
        {"op": "turn", "path": "/a"},
        {"path": "/a"},
    ],
)
def test_a_json_patch_that_cannot_be_is_422(operation):
    with pytest.raises(RefusedError) as refused:
        patching.apply(patching.JSON, {"a": 1, "l": []}, [operation])
    assert (refused.value.code, refused.value.reason) == (422, "Invalid")


def test_merge_patch_removes_what_is_null_and_replaces_lists():
    patch = {"a": None, "b": {"c": 2, "d": None}, "l": [3], "n": {"x": None, "y": 1}}
    target = {"a": 1, "b": {"c": 1, "d": 1, "e": 1}, "l": [1, 2]}
    merged = patching.apply(patching.MERGE, target, patch)
    assert merged == {"b": {"c": 2, "e": 1}, "l": [3], "n": {"y": 1}}


def strategic(patch):
    return patching.apply(patching.STRATEGIC, POD, patch)


def test_strategic_merge_goes_into_containers_and_their_variables():
    env = [{"name": "X", "value": "2"}, {"name": "Y", "value": "3"}]
    spec = strategic({"spec": {"containers": [{"name": "a", "env": env}]}})["spec"]
    assert spec["containers"][0] == {"name": "a", "image": "1", "env": env}
    assert spec["containers"][1] == {"name": "b", "image": "2"}


def test_strategic_merge_by_condition_type():
    patch = {"status": {"conditions": [{"type": "Ready", "status": "True"}, {"type": "New"}]}}
    conditions = strategic(patch)["status"]["conditions"]
    assert conditions == [{"type": "Ready", "status": "True"}, {"type": "New"}]


def test_strategic_merge_adds_finalizers_and_can_take_one_away():
    assert strategic({"metadata": {"finalizers": ["c/d"]}})["metadata"]["finalizers"] == [
        "a/b",
        "c/d",
    ]
    patch = {"metadata": {"$deleteFromPrimitiveList/finalizers": ["a/b"]}}
    assert strategic(patch)["metadata"]["finalizers"] == []


def test_strategic_merge_replaces_lists_without_a_key():
    assert strategic({"spec": {"tolerations": []}})["spec"]["tolerations"] == []


def test_strategic_merge_directives():
    patch = {"spec": {"containers": [{"name": "a", "$patch": "delete"}]}}
    assert [one["name"] for one in strategic(patch)["spec"]["containers"]] == ["b"]
    patch = {"spec": {"containers": [{"$patch": "replace"}, {"name": "z"}]}}
    assert strategic(patch)["spec"]["containers"] == [{"name": "z"}]
    patch = {"metadata": {"labels": {"$patch": "replace", "y": "2"}}}
    assert strategic(patch)["metadata"]["labels"] == {"y": "2"}
    order = {"$setElementOrder/containers": [{"name": "b"}, {"name": "a"}]}
    assert [one["name"] for one in strategic({"spec": order})["spec"]["containers"]] == ["b", "a"]


def test_strategic_merge_needs_the_key():
    with pytest.raises(RefusedError, match="does not contain declared merge key: name"):
        strategic({"spec": {"containers": [{"image": "3"}]}})
