# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""What the API server has of one kind, kept up to date by a list and a watch."""

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
"""Namespace and name; the namespace is empty for what has none."""


class Informer:
    """All objects of a kind.

    Attributes:
        items: The objects as they are known, by their keys.
        is_complete: They have been listed at least once.
    """

    def __init__(
        self, client: ApiClient, kind: ResourceKind, changed: Callable[[], None], label: str = ""
    ) -> None:
        """Prepare.

        Args:
            client: Of the API server.
            kind: Of which objects.
            changed: Is called after each change.
            label: Only of those objects that have it.
        """
        self._client, self._kind, self._changed = client, kind, changed
        self._label = label
        self.items: dict[Key, Object] = {}
        self.is_complete = False
        self._seen = 0

    async def run(self) -> None:
        """Keep up to date until this is cancelled."""
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
                # After other errors, too: a server that was restored may be at an earlier version.
                if error.is_expired or error.code:
                    version = ""
                if error.is_expired:
                    continue
                _log.info("%s: %s", self._kind.plural, error)
            await asyncio.sleep(pause * random.uniform(0.8, 1.2))
            pause = min(2 * pause, _LONGEST_PAUSE)

    def learn(self, item: Mapping[str, Any]) -> None:
        """Take up an object that an answer has shown, unless a newer one is known."""
        item = {"apiVersion": self._kind.api_version, "kind": self._kind.kind, **item}
        key = _key(item)
        known = self.items.get(key)
        if known is None and _number(item) <= self._seen:
            return  # It has come and gone before the answer did.
        if known is None or _is_newer(item, known):
            self.items[key] = item
            self._changed()

    def forget(self, key: Key, uid: str) -> None:
        """Take note that an object is gone."""
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
    """Return an object's version; 0 if it is no number."""
    with suppress(ValueError, KeyError):
        return int(item["metadata"]["resourceVersion"])
    return 0


def _is_newer(item: Mapping[str, Any], known: Mapping[str, Any]) -> bool:
    """Return whether an object's version is a later one of the same object."""
    is_same = item["metadata"]["uid"] == known["metadata"]["uid"]
    return is_same and _number(item) > _number(known)
