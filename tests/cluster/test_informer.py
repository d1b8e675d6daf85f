# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""What is known of objects, past answers that come late and watches that break."""

from __future__ import annotations

import asyncio

import pytest

from tf_malleable.cluster.kube.client import CallError
from tf_malleable.cluster.kube.informer import Informer
from tf_malleable.cluster.resource_names import PODS


def pod(version, name="a", uid="u"):
    metadata = {"name": name, "namespace": "d", "uid": uid, "resourceVersion": str(version)}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata}


class Script:
    """A client that says what a test wants: lists, and what watches tell."""

    def __init__(self, lists, watches):
        self.lists, self.watches, self.asked = list(lists), list(watches), []

    async def list(self, kind, label=""):
        self.asked.append("list")
        return self.lists.pop(0)

    async def watch(self, kind, version, label=""):
        self.asked.append(version)
        if not self.watches:
            await asyncio.Event().wait()
        for event in self.watches.pop(0):
            if isinstance(event, CallError):
                raise event
            yield event


def event(kind, item):
    return {"type": kind, "object": item}


def run(script, steps=12):
    changes = []

    async def work():
        mirror = Informer(script, PODS, lambda: changes.append(1))
        task = asyncio.create_task(mirror.run())
        while script.watches or script.lists:
            await asyncio.sleep(0.01)
        await asyncio.sleep(0.01)
        task.cancel()
        return mirror

    return asyncio.run(work())


def versions(mirror):
    return {key[1]: item["metadata"]["resourceVersion"] for key, item in mirror.items.items()}


def test_a_list_and_what_changed_since():
    script = Script(
        [([pod(3), pod(4, "b", "v")], "5")],
        [
            [
                event("MODIFIED", pod(6)),
                event("DELETED", pod(7, "b", "v")),
                event("BOOKMARK", pod(9)),
            ]
        ],
    )
    mirror = run(script)
    assert versions(mirror) == {"a": "6"}
    assert mirror.is_complete
    assert script.asked == ["list", "5", "9"]


@pytest.mark.parametrize("code", [410, 500])
def test_after_an_error_all_is_listed_anew(code):
    broken = CallError(code, "", "")
    script = Script(
        [([pod(3)], "5"), ([pod(8, "b", "v")], "8")], [[event("MODIFIED", pod(6)), broken]]
    )
    assert versions(run(script)) == {"b": "8"}


def test_a_watch_that_broke_off_goes_on():
    script = Script(
        [([pod(3)], "5")], [[event("MODIFIED", pod(6)), CallError(0, "NoAnswer", "")], []]
    )
    run(script)
    assert script.asked[:3] == ["list", "5", "6"]


def learned(*items, known=()):
    async def work():
        mirror = Informer(Script([], []), PODS, lambda: None)
        mirror._begin(list(known))
        for item in items:
            mirror.learn(item)
        return mirror

    return asyncio.run(work())


def test_answers_are_taken_up_unless_more_is_known():
    assert versions(learned(pod(5), known=[pod(3)])) == {"a": "5"}
    assert versions(learned(pod(2), known=[pod(3)])) == {"a": "3"}
    assert versions(learned(pod(9, "b", "v"), known=[pod(3)])) == {"a": "3", "b": "9"}


def test_an_answer_does_not_bring_back_what_has_come_and_gone():
    mirror = learned(known=[pod(3)])
    mirror._take(event("DELETED", pod(8)))
    mirror.learn(pod(5))
    assert versions(mirror) == {}


def test_a_later_object_of_the_same_name_is_not_forgotten_with_the_first():
    mirror = learned(known=[pod(3)])
    mirror._take(event("ADDED", pod(9, uid="v")))
    mirror._take(event("DELETED", pod(8)))
    mirror.forget(("d", "a"), "u")
    assert versions(mirror) == {"a": "9"}
