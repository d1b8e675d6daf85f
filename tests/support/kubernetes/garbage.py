# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""What deletes objects after others: those they own, namespaces' and definitions' contents."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from typing import Any

from tests.support.kubernetes import conditions, custom, kinds, pods
from tests.support.kubernetes.api import Api
from tests.support.kubernetes.client import Client
from tests.support.kubernetes.refusals import RefusedError
from tests.support.kubernetes.store import Key

Object = dict[str, Any]
_FOREGROUND, _ORPHAN = "foregroundDeletion", "orphan"


class Collector:
    """Deletes what nothing needs any more."""

    def __init__(self, api: Api, client: Client) -> None:
        self._api, self._client = api, client

    def step(self) -> None:
        """Look at all objects once."""
        with self._api.store.lock:
            items = self._api.store.items()
        present = {item["metadata"]["uid"]: key for key, item in items}
        for key, item in items:
            if self._is_orphaned(key, item, present):
                self._delete(key, item)
        for key, item in items:
            if "deletionTimestamp" in item["metadata"]:
                self._finish(key, item, items)
        self._collect_pods(items)

    def _is_orphaned(self, key: Key, item: Object, present: dict[str, Key]) -> bool:
        owners = item["metadata"].get("ownerReferences", ())
        # An owner in another namespace is none.
        found = [one for one in owners if present.get(one["uid"], (0, "?"))[1] in ("", key[1])]
        return bool(owners) and not found

    def _finish(self, key: Key, item: Object, items: list[tuple[Key, Object]]) -> None:
        """Do what the finalizers of an object that is being deleted stand for."""
        finalizers = item["metadata"].get("finalizers", ())
        owned = list(_owned(item, items))
        if _FOREGROUND in finalizers:
            for other, dependent in owned:
                self._delete(other, dependent)
            if not owned:
                self._release(key, item, _FOREGROUND)
        if _ORPHAN in finalizers:
            for other, dependent in owned:
                kept = [
                    one
                    for one in dependent["metadata"]["ownerReferences"]
                    if one["uid"] != item["metadata"]["uid"]
                ]
                self._change(other, dependent, "ownerReferences", kept)
            self._release(key, item, _ORPHAN)
        if key[0] == kinds.NAMESPACES:
            self._empty(item, [(k, i) for k, i in items if k[1] == key[2]])
        if key[0] == kinds.CRDS and custom.CLEANUP in finalizers:
            defined = item["spec"]["group"], item["spec"]["names"]["plural"]
            inside = [(k, i) for k, i in items if k[0] == defined]
            for other, instance in inside:
                self._delete(other, instance)
            if not inside:
                self._release(key, item, custom.CLEANUP)

    def _empty(self, namespace: Object, inside: list[tuple[Key, Object]]) -> None:
        for key, item in inside:
            self._delete(key, item)
        if not inside:
            self._client.replace({**namespace, "spec": {"finalizers": []}}, "finalize")

    def _collect_pods(self, items: list[tuple[Key, Object]]) -> None:
        """Force pods away whose node is no more: nobody else will."""
        nodes = {key[2] for key, _ in items if key[0] == kinds.NODES}
        for key, pod in items:
            if key[0] != kinds.PODS or pod["spec"].get("nodeName", "") in ("", *nodes):
                continue
            if pods.is_live(pod):
                why = "PodGC: node no longer exists"
                target = conditions.condition("DisruptionTarget", "True", "DeletionByPodGC", why)
                status = conditions.with_condition({**pod["status"], "phase": "Failed"}, target)
                self._client.set_status("pods", pod, status)
            self._delete(key, pod, gracePeriodSeconds=0)

    def _delete(self, key: Key, item: Object, **options: Any) -> None:
        if "deletionTimestamp" in item["metadata"] and not options:
            return
        same = {"uid": item["metadata"]["uid"]}
        with suppress(RefusedError, KeyError):  # It is gone, and perhaps its kind with it.
            self._client.delete(_plural(key), key[2], key[1], preconditions=same, **options)

    def _release(self, key: Key, item: Object, finalizer: str) -> None:
        kept = [one for one in item["metadata"]["finalizers"] if one != finalizer]
        self._change(key, item, "finalizers", kept)

    def _change(self, key: Key, item: Object, field: str, value: list[Any]) -> None:
        version = item["metadata"]["resourceVersion"]
        patch = {"metadata": {field: value, "resourceVersion": version}}
        self._client.patch(_plural(key), key[2], patch, key[1])


def _plural(key: Key) -> str:
    group, plural = key[0]
    return f"{plural}.{group}" if group else plural


def _owned(owner: Object, items: list[tuple[Key, Object]]) -> Iterator[tuple[Key, Object]]:
    uid = owner["metadata"]["uid"]
    for key, item in items:
        if any(one["uid"] == uid for one in item["metadata"].get("ownerReferences", ())):
            yield key, item
