# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Informer: a local copy of one kind of object, kept current by list and watch."""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any, Final

from tf_malleable.cluster.kube.client import ApiClient, CallError, Object
from tf_malleable.cluster.resource_names import ResourceKind

_FIRST_PAUSE: Final = 0.1
_LONGEST_PAUSE: Final = 5.0
_log = logging.getLogger(__name__)

Key = tuple[str, str]
"""Namespace and name; the namespace of a cluster-wide object is empty."""


class Informer:
    """Local copy of all objects of a kind.

    Attributes:
        items: Known objects, by key.
        is_complete: True once the objects have been listed.
    """

    def __init__(
        self, client: ApiClient, kind: ResourceKind, changed: Callable[[], None], label: str = ""
    ) -> None:
        """Create an informer without any objects; run() fills it.

        Args:
            client: Client of the API server.
            kind: Kind of the objects.
            changed: Called after each change.
            label: Label selector; empty for all objects.
        """
        self._client, self._kind, self._changed = client, kind, changed
        self._label = label
        self.items: dict[Key, Object] = {}
        self.is_complete = False
        self._seen = 0

    async def run(self) -> None:
        """Keep the copy current until cancelled."""
        pause = _FIRST_PAUSE
        version = ""
        while True:
            try:
                if not version:
                    found, version = await self._client.list(self._kind, label=self._label)
                    self._begin(found)
                    pause = _FIRST_PAUSE
                async for event in self._client.watch(self._kind, version, self._label):
                    version = self._take(event)
                    pause = _FIRST_PAUSE
                continue  # The server ends each watch after some minutes.
            except CallError as error:
                # Relist after other errors, too: a restored server may be at an earlier version.
                if error.is_expired or error.code:
                    version = ""
                if error.is_expired:
                    continue
                # Who writes to the server tells of an outage, once for all kinds.
                level = logging.DEBUG if error.is_outage else logging.INFO
                _log.log(level, "%s: %s", self._kind.plural, error)
            await asyncio.sleep(pause * random.uniform(0.8, 1.2))
            pause = min(2 * pause, _LONGEST_PAUSE)

    def learn(self, item: Mapping[str, Any]) -> None:
        """Store an object from the answer to a call, unless a newer version is known."""
        item = {"apiVersion": self._kind.api_version, "kind": self._kind.kind, **item}
        key = _key(item)
        known = self.items.get(key)
        if known is None and _number(item) <= self._seen:
            return  # The object was created and deleted before the answer arrived.
        if known is None or _is_newer(item, known):
            self.items[key] = item
            self._changed()

    def forget(self, key: Key, uid: str) -> None:
        """Remove an object that no longer exists."""
        known = self.items.get(key)
        if known is not None and known["metadata"]["uid"] == uid:
            del self.items[key]
            self._changed()

    def _begin(self, found: list[Object]) -> None:
        before = self.items
        self.items = {}
        for item in found:
            whole = {"apiVersion": self._kind.api_version, "kind": self._kind.kind, **item}
            known = before.get(_key(whole))
            is_ahead = known is not None and _is_newer(known, whole)
            self.items[_key(whole)] = known if known is not None and is_ahead else whole
            self._seen = max(self._seen, _number(whole))
        self.is_complete = True
        self._changed()

    def _take(self, event: Object) -> str:
        item = event["object"]
        version = str(item["metadata"]["resourceVersion"])
        self._seen = max(self._seen, _number(item))
        if event["type"] == "BOOKMARK":
            return version
        key = _key(item)
        known = self.items.get(key)
        if event["type"] == "DELETED":
            if known is not None and known["metadata"]["uid"] == item["metadata"]["uid"]:
                del self.items[key]
                self._changed()
        elif known is None or not _is_newer(known, item):
            self.items[key] = item
            self._changed()
        return version


def _key(item: Mapping[str, Any]) -> Key:
    metadata = item["metadata"]
    return metadata.get("namespace", ""), metadata["name"]


def _number(item: Mapping[str, Any]) -> int:
    """Return an object's resource version; 0 if it is not a number."""
    with suppress(ValueError, KeyError):
        return int(item["metadata"]["resourceVersion"])
    return 0


def _is_newer(item: Mapping[str, Any], known: Mapping[str, Any]) -> bool:
    """Return whether `item` is a later version of the object `known`."""
    is_same = item["metadata"]["uid"] == known["metadata"]["uid"]
    return is_same and _number(item) > _number(known)
