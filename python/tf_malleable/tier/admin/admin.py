# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Administrative operations of a tier: status, warm, drop, check and why."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Iterable
from dataclasses import asdict
from pathlib import Path

from tf_malleable.api.schema.refusal import Refusal
from tf_malleable.api.schema.tier import NodeState, TierDone, TierStatus, Why
from tf_malleable.tier.admin.warmup import Warmup
from tf_malleable.tier.node_messages import area_and_path, key_of
from tf_malleable.tier.object_names import SCHEME, ObjectSource, paths_of, shown
from tf_malleable.tier.peers.membership import Membership
from tf_malleable.tier.peers.node_client import NodeClient
from tf_malleable.tier.protocol import Identity
from tf_malleable.tier.service import TierService
from tf_malleable.tier.store.copy_store import Kept, below
from tf_malleable.tier.store.tenancy import area_of, is_everybodys, private_area


class TierAdmin:
    """Implementation of the administrative operations."""

    def __init__(
        self,
        service: TierService,
        warming: Warmup,
        membership: Membership,
        client: NodeClient | None,
        sources: Iterable[Path | ObjectSource],
        shared: bool,
    ) -> None:
        """Create the operations.

        Args:
            service: Service of the tier.
            warming: Warm-up, which copies files in advance.
            membership: Nodes of the tier.
            client: Client for other nodes; None without other nodes.
            sources: Folders whose files are copied, and objects.
            shared: Whether several users read through the tier.
        """
        self._shared = shared
        self._service, self._warming = service, warming
        self._membership, self._client = membership, client
        self._sources = tuple(str(source) for source in sources)

    async def status(self) -> TierStatus:
        """Return the status of the tier."""
        service, store, client = self._service, self._service.store, self._client
        nodes: tuple[NodeState, ...] = ()
        if client is not None:
            nodes = tuple(
                NodeState(node, client.allows(node), client.breakers[node].opened)
                for node in self._membership.others
            )
        directory = service.directory
        return TierStatus(
            self._membership.node,
            self._sources,
            str(store.folder),
            store.capacity,
            store.used,
            len(store),
            len(service.growing),
            store.unverified,
            0 if directory is None else len(directory.records),
            service.problem,
            nodes,
            asdict(service.counters),
            self._warming.progress,
            self._warming.seconds_left(time.monotonic()),
        )

    async def warm(self, paths: tuple[str, ...]) -> TierDone:
        """Begin to copy files in advance; return their number and size.

        Raises:
            Refusal: A path is not below the source, or does not exist.
        """
        for path in paths:
            if path.startswith(SCHEME):
                raise Refusal(400, "objects of S3 are copied when they are read, not in advance")
            if path not in self._sources and not self._service.is_source(path):
                raise Refusal(400, f"{path} is not below the source, {', '.join(self._sources)}")
            if not os.path.exists(path):
                raise Refusal(400, f"there is no {path}")
        files, size = await self._warming.add(paths)
        return TierDone(files, size)

    async def drop(self, paths: tuple[str, ...]) -> TierDone:
        """Remove the copies of files, or of all files in folders; all copies for no paths."""
        dropped = self._chosen(paths)
        for kept in dropped:
            self._service.forget(kept.key)
            await asyncio.sleep(0)
        return _done(dropped)

    async def check(self, paths: tuple[str, ...]) -> TierDone:
        """Compare copies with their checksums, and remove those that do not match."""
        service, checked, bad = self._service, self._chosen(paths), []
        for kept in checked:
            if not await service.check(kept.key):
                bad.append(shown(area_and_path(kept.key)[1]))
        return _done(checked, bad)

    async def why(self, path: str, uid: int) -> Why:
        """Return where a file is read from, and why.

        Args:
            path: Absolute path of the file in the source.
            uid: User id of the reader.
        """
        return await self._service.in_thread(lambda: self._why(path, uid))

    def _why(self, path: str, uid: int) -> Why:
        service = self._service
        if path.startswith(SCHEME):
            return self._why_object(path)
        # As the shim names files: without symbolic links and "..".
        named, path = path, os.path.realpath(path)
        if not service.is_source(path):
            said = f"the source: {named} is not below {', '.join(self._sources)}"
            return Why(False, said)
        about = problem = None
        try:
            about = os.stat(path)
        except OSError as error:
            problem = error.strerror
        # The tier may be root's, and does not tell others what is where they may not look.
        if uid not in (0, os.geteuid()) and not (about and _may_see(path, about, uid)):
            problem = "there is no such file, or not every user may read it"
        if about is None or problem:
            return Why(False, f"nowhere: the tier cannot look at {named}: {problem}")
        area = area_of(Path(path), about, uid) if self._shared else private_area(uid)
        key = key_of(area, path)
        kept = service.store.get(key)
        if kept is not None and kept.identity.is_same(about):
            return Why(True, f"the copy {service.store.path(key)}, which is complete")
        if key in service.growing:
            return Why(False, "the source or another node: its copy grows")
        if kept is not None:
            return Why(False, "the source: the file has changed since it was copied")
        if not Identity.of(about).is_settled(time.time()):
            return Why(False, "the source: it was modified less than 10 s ago")
        if service.problem:
            return Why(False, f"the source: {service.problem}")
        return Why(False, "the source or another node: nobody has read it whole here yet")

    def _why_object(self, url: str) -> Why:
        service, key = self._service, key_of(private_area(os.geteuid()), paths_of(url)[0])
        if service.store.get(key) is not None:
            return Why(True, f"the copy {service.store.path(key)}, if S3 still has that version")
        return Why(False, f"S3: {service.problem or 'there is no copy'}")

    def _chosen(self, paths: tuple[str, ...]) -> list[Kept]:
        store = self._service.store
        if not paths:
            return store.kept()
        names = {name.rstrip("/") or "/" for path in paths for name in paths_of(path)}
        return below(store.kept(), names)


def _done(copies: list[Kept], bad: Iterable[str] = ()) -> TierDone:
    return TierDone(len(copies), sum(each.size for each in copies), tuple(bad))


def _may_see(path: str, about: os.stat_result, uid: int) -> bool:
    """Return whether a user may know of a file in the source: it is the user's, or everybody's."""
    return about.st_uid == uid or is_everybodys(Path(path), about)
