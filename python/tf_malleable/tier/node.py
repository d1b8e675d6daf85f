# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Tier of one node: its components and their background tasks."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Callable, Coroutine, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from tf_malleable.linux.file_systems import is_on_file_server
from tf_malleable.tier.admin.admin import TierAdmin
from tf_malleable.tier.admin.warmup import Warmup
from tf_malleable.tier.metrics import Counters
from tf_malleable.tier.node_messages import RecordsAnswer, RecordsMessage, key_of
from tf_malleable.tier.peers.directory import Directory
from tf_malleable.tier.peers.membership import Membership
from tf_malleable.tier.peers.node_client import NodeClient, PeerGoneError
from tf_malleable.tier.peers.node_server import NodeServer, Servable, ServedCopy
from tf_malleable.tier.peers.peer_fetch import PeerFetch
from tf_malleable.tier.peers.tls import contexts
from tf_malleable.tier.protocol import Identity, StateFlag
from tf_malleable.tier.readers.lookup import Lookup
from tf_malleable.tier.readers.reader_events import ReaderEvents
from tf_malleable.tier.readers.reader_server import ReaderServer
from tf_malleable.tier.readers.state_file import LifeSign
from tf_malleable.tier.request_signature import Signer
from tf_malleable.tier.revalidation import Revalidation, watch_copies
from tf_malleable.tier.scrub import Scrub
from tf_malleable.tier.service import TierService
from tf_malleable.tier.settings import NodeAddress, TierSettings
from tf_malleable.tier.source_watch import SourceWatch
from tf_malleable.tier.store.copy_store import CopyStore
from tf_malleable.tier.store.tenancy import area_of, private_area

_BEAT_SECONDS = 0.5
_CLAIM_SECONDS = 0.25
_LOOK_SECONDS = 0.02


class TierNode:
    """The tier of one node, with all its components.

    Attributes:
        counters: Counters for metrics.
        service: Decisions about copies, and their publication.
        node: Address of this node, its name among the nodes; empty without other nodes.
        lookup: Answers to lookups of readers.
        readers: Server for messages of readers.
        people: Operations for administrators, from start() on.
    """

    people: TierAdmin

    def __init__(self, settings: TierSettings, store: CopyStore, counters: Counters) -> None:
        """Create the components; needs a running event loop."""
        self._settings, self._store, self.counters = settings, store, counters
        self.service = TierService(store, settings.sources, counters)
        self.node = ""
        self._server: NodeServer | None = None
        self._client: NodeClient | None = None
        self._membership = Membership("", (), None, lambda node: True)
        self._tasks: list[asyncio.Task[None]] = []
        self._rechecking = Revalidation(self.service, settings.staleness)
        self._syncs = any(is_on_file_server(str(each)) for each in settings.sources)
        self._watch: SourceWatch | None = None
        self.lookup = Lookup(self.service, settings.shared)
        events = ReaderEvents(self.service, settings.shared, self.lookup.published)
        self.readers = ReaderServer(self.service, events, self.lookup)
        self._scrubbing = Scrub(self.service, settings.scrub)

    async def start(self) -> None:
        """Start the background tasks, and listen for other nodes.

        Raises:
            OSError: Listening at the address failed.
        """
        settings = self._settings
        if settings.listen is not None:
            serving, asking = contexts(settings.certificate, settings.authority)
            signer = Signer(settings.secret, has_certificates=serving is not None)
            self._client = NodeClient(signer, asking)
            self._server = NodeServer(signer, self._answer, self._find, self.counters)
            host = settings.listen.host
            port = await self._server.start(host, settings.listen.port, serving)
            self.node = str(NodeAddress(host, port))
            self._membership = Membership(
                self.node, settings.peers, settings.dns, self._client.allows
            )
            directory = Directory(
                self._membership, self._client, self._store.keys, lambda: self.service.claimed
            )
            self.service.directory = directory
            self.service.following = PeerFetch(self._client, self.counters, self._rotten)
            self._in_background(self._membership.follow())
            self._in_background(directory.beat())
        self.people = TierAdmin(
            self.service,
            Warmup(self._warm),
            self._membership,
            self._client,
            (*settings.sources, *settings.objects),
            settings.shared,
        )
        self._store.admit(os.geteuid())
        if settings.shared:
            self._watch = watch_copies(self.service, self._rechecking)
        self._in_background(self._verify())
        self._in_background(self._rechecking.run())
        self._in_background(self._scrubbing.run())

    async def live(self, state: LifeSign) -> None:
        """Signal to readers each second that the tier is alive, until cancelled.

        No signal is given while a comparison of the copies with the source is overdue: readers
        then compare them on their own.
        """
        settings = self._settings
        self.lookup.habits.tell = state.set_unasked
        while True:
            if self._rechecking.is_valid(time.monotonic()):
                flags = StateFlag(0)
                if not self.service.problem:
                    flags |= StateFlag.FILLS
                if self._membership.others:
                    flags |= StateFlag.ASKS
                if settings.shared:
                    flags |= StateFlag.SHARED
                if settings.staleness > 0:
                    flags |= StateFlag.UNCHECKED
                if self._syncs:
                    flags |= StateFlag.SYNCS
                state.publish(flags, self.service.largest)
            # Twice a second, so that the first signal comes soon after the first comparison.
            await asyncio.sleep(_BEAT_SECONDS)

    async def stop(self) -> None:
        """Stop all tasks, and close all connections to other nodes."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        if self._watch is not None:
            self._watch.close()
        if self._server is not None:
            await self._server.stop()
        if self._client is not None:
            await self._client.close()

    @property
    def gauges(self) -> Mapping[str, Callable[[], float]]:
        """Gauges for Prometheus: functions that return a value, by name."""
        store, service = self._store, self.service
        return {
            "capacity_bytes": lambda: store.capacity,
            "used_bytes": lambda: store.used,
            "copies": lambda: len(store),
            "growing": lambda: len(service.growing),
            "nodes_left_alone": lambda: sum(
                self._client is not None and not self._client.allows(node)
                for node in self._membership.others
            ),
        }

    async def _warm(self, path: str) -> None:
        service = self.service
        source = await service.in_thread(lambda: os.open(path, os.O_RDONLY | os.O_CLOEXEC))
        try:
            about = os.fstat(source)
            uid = os.geteuid()
            area = area_of(Path(path), about, uid) if self._settings.shared else private_area(uid)
            key, identity = key_of(area, path), Identity.of(about)
            copy = service.growing.get(key)
            if copy is not None:
                copy.wanted = True
                await copy.wait_until_closed()
            elif not service.refusal(key, path, identity):
                copy = await service.create(key, identity, source)
                if copy is not None:
                    copy.wanted = True
                    await service.complete(copy)
        finally:
            os.close(source)

    async def _verify(self) -> None:
        """Verify the copies from before the last boot, one by one, and use the good ones again."""
        good = self._store.verify()
        while (key := await self.service.in_thread(lambda: next(good, None))) is not None:
            kept = self._store.get(key)
            if self.service.directory is not None and kept is not None:
                self.service.directory.hold({key: kept.identity.version})

    def _answer(self, message: RecordsMessage) -> RecordsAnswer:
        assert self.service.directory is not None
        for key in message.rotten:
            self.service.in_background(self.service.check(key))
        return self.service.directory.answer(message)

    async def _find(self, key: str, version: str) -> Servable | None:
        end = time.monotonic() + _CLAIM_SECONDS
        while True:
            kept = self._store.get(key)
            if kept is not None and version in ("", kept.identity.version):
                return ServedCopy(self._store.path(key), kept.identity)
            growing = self.service.growing.get(key)
            # Only a copy that this node reads from the source: otherwise nodes could follow each
            # other in a circle.
            if growing is not None and key in self.service.claimed:
                return growing if version in ("", growing.identity.version) else None
            # A reader with a claim may have been told to read the source, and not have begun yet.
            if not self.lookup.has_claimed(key) or time.monotonic() > end:
                return None
            await asyncio.sleep(_LOOK_SECONDS / 4)

    def _rotten(self, node: str, key: str) -> None:
        self.counters.rotten += 1
        self.service.in_background(self._complain(node, key))

    async def _complain(self, node: str, key: str) -> None:
        """Ask a node to check whether its copy or the network corrupted the bytes."""
        assert self._client is not None
        with suppress(PeerGoneError):
            await self._client.tell(node, RecordsMessage(self.node, rotten=(key,)))

    def _in_background(self, coroutine: Coroutine[Any, Any, None]) -> None:
        self._tasks.append(asyncio.get_running_loop().create_task(coroutine))
