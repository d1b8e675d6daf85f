# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Leader election: of several operators, only the one that holds and renews a lease acts.

An operator that waits measures by its own clock for how long the lease has not changed: the clocks
of hosts need not agree. A leader that cannot renew stops well before another one takes over.
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

# Parts of the lease's time: for how long a renewal allows to act, and when the next one is due.
_SHARE: Final = 0.6
_RENEWALS: Final = 0.25
_log = logging.getLogger(__name__)


class LeaderElection:
    """Candidate for a lease: holds it or waits for it."""

    def __init__(
        self,
        client: ApiClient,
        namespace: str,
        name: str,
        identity: str,
        seconds: float,
        changed: Callable[[], None],
    ) -> None:
        """Create a candidate that does not lead yet.

        Args:
            client: Client of the API server.
            namespace: Namespace of the lease.
            name: Name of the lease.
            identity: Name of this operator.
            seconds: Time without a renewal after which another operator takes over, in seconds.
            changed: Called when this operator begins to lead.
        """
        self._client, self._namespace, self._name = client, namespace, name
        self._identity, self._seconds, self._changed = identity, seconds, changed
        self._until = 0.0
        self._next = 0.0
        self._seen: tuple[str, float] = "", 0.0
        # As this operator has written it; None if somebody else may have done so since.
        self._lease: Object | None = None

    @property
    def is_leader(self) -> bool:
        """Whether this operator may act."""
        return time.monotonic() < self._until

    async def run(self) -> None:
        """Hold the lease, or try to acquire it, until cancelled; then release it."""
        trying: asyncio.Task[None] | None = None
        try:
            while True:
                self._next = time.monotonic() + _RENEWALS * self._seconds
                trying = asyncio.create_task(self._try())
                with suppress(CallError):
                    await asyncio.shield(trying)
                await asyncio.sleep(max(0.0, self._next - time.monotonic()))
        finally:
            # The server may still execute an abandoned call, after the release below.
            if trying is not None:
                with suppress(CallError):
                    await trying
            # Release even after a late renewal: the lease may still name this operator.
            self._until = 0.0
            with suppress(CallError):
                await self._release()

    async def _try(self) -> None:
        begin = time.monotonic()
        lease, self._lease = self._lease, None
        if lease is None:
            lease = await self._read()
        if lease is None:
            made = {**_metadata(self._namespace, self._name), "spec": self._spec(0, None)}
            self._lease = await self._client.create(resource_names.LEASES, self._namespace, made)
            self._lead(begin)
            return
        spec = lease.get("spec") or {}
        holder = spec.get("holderIdentity") or ""
        version = str(lease["metadata"]["resourceVersion"])
        if self._seen[0] != version:
            self._seen = version, begin
        is_mine = holder == self._identity
        patience = max(self._seconds, float(spec.get("leaseDurationSeconds") or 0))
        expiry = self._seen[1] + patience
        if not is_mine and holder and begin < expiry:
            self._next = min(self._next, expiry)
            return
        changes = int(spec.get("leaseTransitions") or 0) + (not is_mine)
        since = spec.get("acquireTime") if is_mine else None
        self._lease = await self._replace({**lease, "spec": self._spec(changes, since)})
        self._lead(begin)

    async def _read(self) -> Object | None:
        """Return the lease; None if there is none."""
        try:
            return await self._client.get(resource_names.LEASES, self._namespace, self._name)
        except CallError as error:
            if not error.is_gone:
                raise
            return None

    async def _replace(self, lease: Object) -> Object:
        return await self._client.replace(resource_names.LEASES, self._namespace, lease)

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
            await self._replace({**lease, "spec": spec})


def _metadata(namespace: str, name: str) -> Object:
    return {
        "apiVersion": resource_names.LEASES.api_version,
        "kind": resource_names.LEASES.kind,
        "metadata": {"namespace": namespace, "name": name},
    }
