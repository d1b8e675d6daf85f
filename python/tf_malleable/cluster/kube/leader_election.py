# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""One of several operators acts: the one that holds a lease, and renews it.

Whoever waits compares what it reads with what it read before, by its own clock: the clocks of
hosts need not agree. A leader that cannot renew stops well before another one takes over.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable
from contextlib import suppress
from datetime import datetime, timezone
from typing import Any, Final

from tf_malleable.cluster import resource_names
from tf_malleable.cluster.kube.client import ApiClient, CallError, Object

_SHARE: Final = 0.6
_log = logging.getLogger(__name__)


class LeaderElection:
    """Holds a lease, or waits for it."""

    def __init__(
        self,
        client: ApiClient,
        namespace: str,
        name: str,
        identity: str,
        seconds: float,
        changed: Callable[[], None],
    ) -> None:
        """Prepare.

        Args:
            client: Of the API server.
            namespace: Of the lease.
            name: Of the lease.
            identity: Names this operator.
            seconds: After how long without a word another one takes over.
            changed: Is called when this one begins to lead.
        """
        self._client, self._namespace, self._name = client, namespace, name
        self._identity, self._seconds, self._changed = identity, seconds, changed
        self._until = 0.0
        self._seen: tuple[str, float] = "", 0.0

    @property
    def is_leader(self) -> bool:
        """Whether this operator may act."""
        return time.monotonic() < self._until

    async def run(self) -> None:
        """Hold the lease, or try to, until this is cancelled; then give it up."""
        trying: asyncio.Task[None] | None = None
        try:
            while True:
                trying = asyncio.create_task(self._try())
                with suppress(CallError):
                    await asyncio.shield(trying)
                await asyncio.sleep(self._seconds / 5)
        finally:
            # A call that is given up may still be carried out, after what is written here.
            if trying is not None:
                with suppress(CallError):
                    await trying
            # Also if it has been too slow to renew: the lease may still name it.
            self._until = 0.0
            with suppress(CallError):
                await self._release()

    async def _try(self) -> None:
        begin = time.monotonic()
        try:
            lease = await self._client.get(resource_names.LEASES, self._namespace, self._name)
        except CallError as error:
            if not error.is_gone:
                raise
            made = {**_metadata(self._namespace, self._name), "spec": self._spec(0, None)}
            await self._client.create(resource_names.LEASES, self._namespace, made)
            self._lead(begin)
            return
        spec = lease.get("spec") or {}
        holder = spec.get("holderIdentity") or ""
        version = str(lease["metadata"]["resourceVersion"])
        if self._seen[0] != version:
            self._seen = version, begin
        is_mine = holder == self._identity
        patience = max(self._seconds, float(spec.get("leaseDurationSeconds") or 0))
        if not is_mine and holder and begin < self._seen[1] + patience:
            return
        changes = int(spec.get("leaseTransitions") or 0) + (not is_mine)
        since = spec.get("acquireTime") if is_mine else None
        await self._client.replace(
            resource_names.LEASES, self._namespace, {**lease, "spec": self._spec(changes, since)}
        )
        self._lead(begin)

    def _lead(self, begin: float) -> None:
        was = self.is_leader
        self._until = begin + _SHARE * self._seconds
        if not was:
            _log.info("%s leads", self._identity)
            self._changed()

    def _spec(self, changes: int, since: str | None) -> Object:
        now = datetime.now(timezone.utc).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
        return {
            "holderIdentity": self._identity,
            "leaseDurationSeconds": max(1, round(self._seconds)),
            "acquireTime": since or now,
            "renewTime": now,
            "leaseTransitions": changes,
        }

    async def _release(self) -> None:
        lease = await self._client.get(resource_names.LEASES, self._namespace, self._name)
        spec: dict[str, Any] = lease.get("spec") or {}
        if spec.get("holderIdentity") == self._identity:
            spec["holderIdentity"] = ""
            await self._client.replace(
                resource_names.LEASES, self._namespace, {**lease, "spec": spec}
            )


def _metadata(namespace: str, name: str) -> Object:
    return {
        "apiVersion": resource_names.LEASES.api_version,
        "kind": resource_names.LEASES.kind,
        "metadata": {"namespace": namespace, "name": name},
    }
