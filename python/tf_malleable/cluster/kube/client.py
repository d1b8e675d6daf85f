# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Calls of the API server, over aiohttp, with objects as plain dictionaries.

The operator takes one decision about all jobs, from all that it knows. kopf calls a handler for
each object, with that object, in an order of its own: one decision does not fit into that, nor
does a state that is compared as a whole. The client of the kubernetes package makes an object of
a class of every field that it reads, which costs seconds for the pods of a large cluster, and its
watches cannot be given up while they wait. What is needed is little: seven verbs, and
watches (informer.py).
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Mapping
from typing import Any, Final

import aiohttp

from tf_malleable.cluster.kube.kubeconfig import ApiServer
from tf_malleable.cluster.resource_names import ResourceKind

Object = dict[str, Any]
MERGE: Final = "application/merge-patch+json"
APPLY: Final = "application/apply-patch+yaml"
STRATEGIC: Final = "application/strategic-merge-patch+json"
# For so long the server is to keep a watch open.
_WATCH_SECONDS: Final = 240
_LONGEST_LINE: Final = 16 << 20
_PAGE: Final = 500


class CallError(Exception):
    """The API server refuses a call, or cannot be reached.

    Attributes:
        code: HTTP status; 0 if there was no answer, so that it may have been done.
        reason: As the API says it, such as ``"AlreadyExists"``; ``"NoAnswer"``.
    """

    def __init__(self, code: int, reason: str, message: str) -> None:
        self.code, self.reason = code, reason
        super().__init__(message)

    @property
    def is_gone(self) -> bool:
        """Whether it is about an object that is not there."""
        return self.code == 404

    @property
    def is_conflict(self) -> bool:
        """Whether somebody else was faster."""
        return self.code == 409

    @property
    def is_expired(self) -> bool:
        """Whether what was asked for is too long ago."""
        return self.code == 410


class ApiClient:
    """A connection to an API server; used within one event loop."""

    def __init__(self, server: ApiServer, *, call_seconds: float) -> None:
        """Prepare; nothing is sent yet.

        Args:
            server: Where.
            call_seconds: For how long to wait for an answer.
        """
        self._server = server
        self._timeout = aiohttp.ClientTimeout(total=call_seconds)
        connector = aiohttp.TCPConnector(ssl=server.tls or True, limit=64)
        self._session = aiohttp.ClientSession(connector=connector, read_bufsize=_LONGEST_LINE)

    async def close(self) -> None:
        """Hang up."""
        await self._session.close()

    async def get(self, kind: ResourceKind, namespace: str, name: str) -> Object:
        """Return an object; raises CallError, as all of these do."""
        return await self._call("GET", kind.path(namespace, name))

    async def create(self, kind: ResourceKind, namespace: str, item: Mapping[str, Any]) -> Object:
        """Create an object, and return it."""
        return await self._call("POST", kind.path(namespace), item)

    async def replace(self, kind: ResourceKind, namespace: str, item: Mapping[str, Any]) -> Object:
        """Write an object unless it has changed, and return it."""
        return await self._call("PUT", kind.path(namespace, item["metadata"]["name"]), item)

    async def patch(
        self,
        kind: ResourceKind,
        namespace: str,
        name: str,
        change: Mapping[str, Any],
        *,
        part: str = "",
        how: str = MERGE,
    ) -> Object:
        """Change an object, or a part of it, and return it."""
        return await self._call("PATCH", kind.path(namespace, name, part), change, how)

    async def apply(
        self, kind: ResourceKind, item: Mapping[str, Any], *, manager: str, force: bool
    ) -> Object:
        """Have an object be as this says of it, and return it.

        Args:
            kind: Of the object.
            item: What is said of it.
            manager: Who says so, and owns these fields from then on.
            force: Take over those that others own.
        """
        metadata = item["metadata"]
        path = kind.path(metadata.get("namespace", ""), metadata["name"])
        query = {"fieldManager": manager, "force": str(force).lower()}
        return await self._call("PATCH", path, item, APPLY, query)

    async def delete(
        self, kind: ResourceKind, namespace: str, name: str, uid: str, grace: int | None = None
    ) -> Object:
        """Delete an object of this uid; with another grace, in seconds, than it says itself."""
        options: Object = {"preconditions": {"uid": uid}}
        if grace is not None:
            options["gracePeriodSeconds"] = grace
        return await self._call("DELETE", kind.path(namespace, name), options)

    async def list(
        self, kind: ResourceKind, namespace: str = "", label: str = ""
    ) -> tuple[list[Object], str]:
        """Return all objects of a kind, and the version from which to watch them.

        Args:
            kind: Of which objects.
            namespace: Only of this one; of all if it is empty.
            label: Only those that have it.
        """
        found: list[Object] = []
        query: dict[str, str] = {"limit": str(_PAGE)}
        query |= {"labelSelector": label} if label else {}
        while True:
            page = await self._call("GET", kind.path(namespace), query=query)
            found += page.get("items") or ()
            rest = page["metadata"].get("continue")
            if not rest:
                return found, str(page["metadata"]["resourceVersion"])
            query["continue"] = rest

    async def watch(
        self, kind: ResourceKind, version: str, label: str = ""
    ) -> AsyncIterator[Object]:
        """Return the changes of objects since a version, until the server ends it; see list()."""
        query = {
            "watch": "true",
            "resourceVersion": version,
            "allowWatchBookmarks": "true",
            "timeoutSeconds": str(_WATCH_SECONDS),
        }
        query |= {"labelSelector": label} if label else {}
        timeout = aiohttp.ClientTimeout(total=None, sock_connect=5, sock_read=_WATCH_SECONDS + 10)
        try:
            async with self._session.get(
                self._server.url + kind.path(),
                params=query,
                headers=self._server.headers(),
                timeout=timeout,
            ) as response:
                if response.status != 200:
                    raise _error(response.status, await response.text())
                async for line in response.content:
                    event = json.loads(line)
                    if event["type"] == "ERROR":
                        status = event["object"]
                        raise _error(int(status.get("code", 500)), json.dumps(status))
                    yield event
        except (aiohttp.ClientError, OSError, TimeoutError, ValueError) as error:
            raise CallError(0, "NoAnswer", f"the watch of {kind.plural} broke: {error}") from None

    async def _call(
        self,
        method: str,
        path: str,
        body: Mapping[str, Any] | None = None,
        content: str = "application/json",
        query: Mapping[str, str] | None = None,
    ) -> Object:
        headers = {**self._server.headers(), "Content-Type": content}
        try:
            async with self._session.request(
                method,
                self._server.url + path,
                data=None if body is None else json.dumps(body),
                params=query,
                headers=headers,
                timeout=self._timeout,
            ) as response:
                text = await response.text()
                if response.status >= 300:
                    raise _error(response.status, text)
                found: Object = json.loads(text)
                return found
        except (aiohttp.ClientError, OSError, TimeoutError, ValueError) as error:
            what = str(error) or type(error).__name__
            raise CallError(0, "NoAnswer", f"{method} {path}: no answer ({what})") from None


def _error(code: int, text: str) -> CallError:
    try:
        said = json.loads(text)
        return CallError(code, str(said.get("reason", "")), str(said.get("message", text)))
    except (ValueError, AttributeError):
        return CallError(code, "", text[:300])
