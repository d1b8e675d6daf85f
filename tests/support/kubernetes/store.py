# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""The objects of a cluster, and every change of them since the last compaction.

Each change makes a revision, which is the changed object's resourceVersion: one
count for the whole store, as etcd has it. Objects here are never changed in
place; who changes one puts a copy.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

Object = dict[str, Any]
# Group and plural, namespace ("" if it has none), name.
Key = tuple[tuple[str, str], str, str]


class CompactedError(Exception):
    """Changes were asked for that are forgotten."""


@dataclass(frozen=True)
class Change:
    """An object that was added, modified or deleted.

    Attributes:
        object: As it is from now on; a deleted one as it was, with its deletion's revision.
        previous: As it was; None if it was added.
    """

    revision: int
    type: str
    key: Key
    object: Object
    previous: Object | None


class Store:
    """Objects by key. Everything but `lock` is to be used with the lock held."""

    def __init__(self) -> None:
        self.lock = threading.RLock()
        # Not 0 or 1, which clients may take for something special.
        self.revision = self.oldest = 100
        self._objects: dict[Key, Object] = {}
        self._changes: list[Change] = []
        self._listeners: list[Callable[[Change], None]] = []

    def get(self, key: Key) -> Object | None:
        return self._objects.get(key)

    def items(self) -> list[tuple[Key, Object]]:
        return list(self._objects.items())

    def put(self, key: Key, new: Object) -> Object:
        """Keep an object at the next revision, and return it with that."""
        previous = self._objects.get(key)
        new = {**new, "metadata": {**new["metadata"], "resourceVersion": str(self.revision + 1)}}
        self._objects[key] = new
        self._record("ADDED" if previous is None else "MODIFIED", key, new, previous)
        return new

    def remove(self, key: Key) -> Object:
        """Forget an object; return it with the revision of its end."""
        previous = self._objects.pop(key)
        metadata = {**previous["metadata"], "resourceVersion": str(self.revision + 1)}
        last = {**previous, "metadata": metadata}
        self._record("DELETED", key, last, previous)
        return last

    def since(self, revision: int) -> list[Change]:
        """Return the changes after a revision.

        Raises:
            CompactedError: Some of these are forgotten.
        """
        if revision < self.oldest:
            raise CompactedError(revision, self.oldest)
        return self._changes[revision - self.oldest :]

    def compact(self) -> None:
        """Forget all changes so far, but no object. Nobody watches across it."""
        self.revision += 1  # So that even who saw the last change is too late.
        self.oldest = self.revision
        self._changes.clear()

    def listen(self, listener: Callable[[Change], None]) -> Callable[[], None]:
        """Have every change told; return what ends that."""
        self._listeners.append(listener)
        return lambda: self._listeners.remove(listener)

    def list(self, resource: tuple[str, str], namespace: str = "") -> list[Object]:
        """Return the objects of a resource in a namespace, or in all, ordered by key."""
        return [
            self._objects[key]
            for key in sorted(self._objects)
            if key[0] == resource and namespace in ("", key[1])
        ]

    def _record(self, what: str, key: Key, new: Object, previous: Object | None) -> None:
        self.revision += 1
        change = Change(self.revision, what, key, new, previous)
        self._changes.append(change)
        for listener in tuple(self._listeners):
            listener(change)
