# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""API client: calls of the API server over aiohttp, with objects as plain dictionaries.

docs/explanation/clusters.md says why it is none of a library: what these lack, and what they cost.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Mapping
from typing import Any, Final

import aiohttp

from tf_malleable.cluster.kube import object_json
from tf_malleable.cluster.kube.kubeconfig import ApiServer
from tf_malleable.cluster.resource_names import ResourceKind

Object = dict[str, Any]
MERGE: Final = "application/merge-patch+json"
APPLY: Final = "application/apply-patch+yaml"
STRATEGIC: Final = "application/strategic-merge-patch+json"
# Time for which the server is asked to keep a watch open.
_WATCH_SECONDS: Final = 240
_LONGEST_LINE: Final = 16 << 20
_PAGE: Final = 500


class CallError(Exception):
    """The API server refuses a call, or cannot be reached.

    Attributes:
        code: HTTP status; 0 if there was no answer, in which case the call may have succeeded.
        reason: Reason in the API's terms, such as ``"AlreadyExists"``; ``"NoAnswer"`` if there was
            no answer.
    """

    def __init__(self, code: int, reason: str, message: str) -> None:
        self.code, self.reason = code, reason
        super().__init__(message)

    @property
    def is_gone(self) -> bool:
        """Whether the object does not exist."""
        return self.code == 404

    @property
    def is_conflict(self) -> bool:
        """Whether the call conflicts with another client's change."""
        return self.code == 409

    @property
    def is_expired(self) -> bool:
        """Whether the requested resource version has expired."""
        return self.code == 410

    @property
    def is_outage(self) -> bool:
        """Whether the API server did not answer, or could not do what it was asked."""
        return self.code == 0 or self.code >= 500


class ApiClient:
    """Client of an API server; used within one event loop."""

    def __init__(self, server: ApiServer, *, call_seconds: float) -> None:
        """Create a client; nothing is sent yet.

        Args:
            server: API server to call.
            call_seconds: Timeout of a call, in seconds.
        """
        self._server = server
        self._timeout = aiohttp.ClientTimeout(total=call_seconds)
        self._way: dict[str, Any] = {"proxy": server.proxy, "server_hostname": server.tls_name}
        connector = aiohttp.TCPConnector(ssl=server.tls or True, limit=64)
        self._session = aiohttp.ClientSession(connector=connector, read_bufsize=_LONGEST_LINE)

    async def close(self) -> None:
        """Close all connections."""
        await self._session.close()

    async def get(self, kind: ResourceKind, namespace: str, name: str) -> Object:
        """Return an object; this and all other calls raise CallError."""
        return await self._call("GET", kind.path(namespace, name))

    async def create(
        self,
        kind: ResourceKind,
        namespace: str,
        item: Mapping[str, Any],
        *,
        dry_run: bool = False,
    ) -> Object:
        """Create an object, unless it is a dry run, and return it."""
        query = {"dryRun": "All"} if dry_run else None
        return await self._call("POST", kind.path(namespace), item, query=query)

    async def replace(self, kind: ResourceKind, namespace: str, item: Mapping[str, Any]) -> Object:
        """Replace an object unless it has changed on the server, and return it."""
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
        """Patch an object, or a subresource of it, and return it."""
        return await self._call("PATCH", kind.path(namespace, name, part), change, how)

    async def apply(
        self, kind: ResourceKind, item: Mapping[str, Any], *, manager: str, force: bool
    ) -> Object:
        """Apply an object server-side and return it.

        Args:
            kind: Kind of the object.
            item: Object with the fields to set.
            manager: Field manager, which owns these fields from then on.
            force: True to take over fields that other managers own.
        """
        metadata = item["metadata"]
        path = kind.path(metadata.get("namespace", ""), metadata["name"])
        query = {"fieldManager": manager, "force": str(force).lower()}
        return await self._call("PATCH", path, item, APPLY, query)

    async def delete(
        self, kind: ResourceKind, namespace: str, name: str, uid: str, grace: int | None = None
    ) -> Object:
        """Delete the object with this uid.

        `grace` is the grace period in seconds; None for the object's own.
        """
        options: Object = {"preconditions": {"uid": uid}}
        if grace is not None:
            options["gracePeriodSeconds"] = grace
        return await self._call("DELETE", kind.path(namespace, name), options)

    async def list(
        self, kind: ResourceKind, namespace: str = "", label: str = ""
    ) -> tuple[list[Object], str]:
        """Return all objects of a kind, and the resource version from which to watch them.

        Args:
            kind: Kind of the objects.
            namespace: Namespace of the objects; empty for all namespaces.
            label: Label selector; empty for all objects.
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
        """Yield the changes of objects since a version until the server ends the watch.

        The arguments are those of list().
        """
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
                **self._way,
            ) as response:
                if response.status != 200:
                    raise _error(response.status, await response.text())
                async for line in response.content:
                    event = object_json.decode(line.decode())
                    if event["type"] == "ERROR":
                        status = event["object"]
                        raise _error(int(status.get("code", 500)), json.dumps(status))
                    yield event
        except (aiohttp.ClientError, OSError, TimeoutError, ValueError, RecursionError) as error:
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
                **self._way,
            ) as response:
                text = await response.text()
                if response.status >= 300:
                    raise _error(response.status, text)
                found: Object = object_json.decode(text)
                return found
        except (aiohttp.ClientError, OSError, TimeoutError, ValueError, RecursionError) as error:
            what = str(error) or type(error).__name__
            raise CallError(0, "NoAnswer", f"{method} {path}: no answer ({what})") from None


def _error(code: int, text: str) -> CallError:
    try:
        said = object_json.decode(text)
        return CallError(code, str(said.get("reason", "")), str(said.get("message", text)))
    except (ValueError, AttributeError):
        return CallError(code, "", text[:300])
