# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""What a watch tells: changes as they look through its selectors, bookmarks, and its end."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from tests.support.kubernetes.api import Api, present
from tests.support.kubernetes.refusals import Cause, expired, unprocessable
from tests.support.kubernetes.requests import Request
from tests.support.kubernetes.store import CompactedError

Object = dict[str, Any]
_END_OF_LIST = "k8s.io/initial-events-end"


class Watch:
    """A watch and how far it has come."""

    def __init__(self, api: Api, request: Request) -> None:
        """Begin where the request says.

        Raises:
            RefusedError: Its parameters are wrong.
        """
        self._api, self._request = api, request
        self._selects = request.selects()
        asked = request.query.get("resourceVersion", "")
        self.streams_list = request.query.get("sendInitialEvents") == "true"
        if self.streams_list and request.query.get("resourceVersionMatch") != "NotOlderThan":
            why = (
                "Forbidden: sendInitialEvents requires setting resourceVersionMatch to NotOlderThan"
            )
            cause = Cause("resourceVersionMatch", "FieldValueForbidden", why)
            raise unprocessable(request.resource, request.name, [cause])
        self.bookmarks = request.query.get("allowWatchBookmarks") in ("true", "True", "1")
        self._lists = self.streams_list or asked in ("", "0")
        self._revision = 0 if self._lists else int(asked)

    def next(self) -> Iterator[Object]:
        """Return the events since the last call; an ERROR is the last there is."""
        store = self._api.store
        with store.lock:
            if self._lists:
                self._lists = False
                self._revision = store.revision
                found = store.list(self._request.resource.id)
                events = [self._event("ADDED", item) for item in found if self._selects(item)]
                if self.streams_list and self.bookmarks:
                    events.append(self.bookmark(**{_END_OF_LIST: "true"}))
                return iter(events)
            try:
                changes = store.since(self._revision)
            except CompactedError:
                status = expired(self._revision, store.oldest).status()
                return iter([{"type": "ERROR", "object": status}])
            # A version from before the server lost its state, say, is waited for.
            self._revision = max(self._revision, store.revision)
        return self._seen(changes)

    def _seen(self, changes: list[Any]) -> Iterator[Object]:
        for change in changes:
            if change.key[0] != self._request.resource.id:
                continue
            before = change.previous is not None and self._selects(change.previous)
            after = change.type != "DELETED" and self._selects(change.object)
            if after:
                yield self._event("MODIFIED" if before else "ADDED", change.object)
            elif before:
                yield self._event("DELETED", change.object)

    def _event(self, kind: str, item: Object) -> Object:
        return {"type": kind, "object": present(self._request.resource, item)}

    def bookmark(self, **annotations: str) -> Object:
        """Return the event that says how far this has come."""
        metadata: Object = {"resourceVersion": str(self._revision), "creationTimestamp": None}
        if annotations:
            metadata["annotations"] = annotations
        return self._event("BOOKMARK", {"metadata": metadata})
