# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Lookup: answers to readers that ask, before they open the source, for copies on other nodes.

A file that arrives fast is fetched completely first, so that the reader does not even open the
source. For a large file, or one that still grows on another node, the reader follows the partial
copy.
"""

from __future__ import annotations

import asyncio
import os
import socket
import time
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from typing import Final

from tf_malleable.linux.processes.subordinate_uids import account_of
from tf_malleable.tier.node_messages import key_of
from tf_malleable.tier.peers.location_records import Location
from tf_malleable.tier.peers.peer_fetch import Fetch
from tf_malleable.tier.protocol import Identity, ProtocolError, Reply
from tf_malleable.tier.readers.lookup_policy import LookupPolicy
from tf_malleable.tier.service import TierService
from tf_malleable.tier.store.partial_copy import PartialCopy
from tf_malleable.tier.store.tenancy import PUBLIC, private_area

WHOLE_SECONDS: Final = 0.2
"""Time for which a reader waits for a complete copy before it follows a partial one."""
_BEAT_SECONDS: Final = 0.1
_LOOK_SECONDS: Final = 0.002
_CLAIM_SECONDS: Final = 5.0
# Lookups of one user that may wait at the same time: each holds a descriptor and memory.
_MOST_WAITING: Final = 512
# Of this many files that are read without a lookup, the home is asked for one afterwards.
_ONE_OF: Final = 8


class Lookup:
    """Answers the lookups of readers.

    Attributes:
        habits: Policy that decides which readers need not wait for an answer.
    """

    def __init__(self, service: TierService, shared: bool) -> None:
        """Create a lookup service.

        Args:
            service: Service of the tier.
            shared: Whether several users read through the tier.
        """
        self._service, self._shared = service, shared
        # By key: the time at which the claim expires, and the user id of the reader.
        self._claims: dict[str, tuple[float, int]] = {}
        self._unasked = 0
        self._fetches: dict[str, asyncio.Task[str]] = {}
        # By user id: the number of lookups that wait for an answer.
        self._waiting: Counter[int] = Counter()
        self.habits = LookupPolicy()

    def has_claimed(self, key: str) -> bool:
        """Return whether a reader has recently been told to read a file from the source."""
        return time.monotonic() < self._claims.get(key, (0.0, 0))[0]

    def is_asked(self, path: str) -> bool:
        """Return whether readers ask for a file before they open it."""
        return self._service.directory is not None and not self.habits.is_likely_nobodys(path)

    def ask(self, path: str, uid: int, reply_to: socket.socket) -> None:
        """Answer the lookup of a reader.

        Args:
            path: Path of the file.
            uid: User id of the reader.
            reply_to: Unix stream socket to which the answers are sent; closed after the last one.
        """
        if self._waiting[account_of(uid)] >= _MOST_WAITING or self._is_answered_at_once(path, uid):
            with reply_to:
                _say(reply_to, Reply.SOURCE)
        else:
            self._service.in_background(self._answer(path, uid, reply_to))

    def _is_answered_at_once(self, path: str, uid: int) -> bool:
        """Return whether the reader reads the source at once; if so, ask the home meanwhile."""
        service = self._service
        directory = service.directory
        if directory is None or self.is_asked(path):
            return False
        keys = self._keys(path, uid)
        if any(
            key in service.growing or key in self._fetches or service.store.get(key) is not None
            for key in keys
        ):
            return False
        for key in keys:
            self._claim(key, uid)
            directory.ask_later(key, lambda where: self.habits.answered(path, where.is_yours))
        return True

    def _keys(self, path: str, uid: int) -> list[str]:
        keys = [key_of(private_area(uid), path)]
        if self._shared:
            keys.insert(0, key_of(PUBLIC, path))
        return keys

    def published(self, path: str, uid: int) -> None:
        """Note that a reader has made a copy, possibly without a lookup."""
        self._unasked += 1
        directory = self._service.directory
        if directory is not None and self._unasked % _ONE_OF == 0:
            key = key_of(private_area(uid), path)
            directory.ask_later(key, lambda where: self.habits.answered(path, where.is_yours))

    def declined(self, path: str, uid: int) -> None:
        """Note that a reader that was told to read the source makes no copy; free the claim."""
        service = self._service
        for key in self._keys(path, uid):
            is_wanted = key in service.growing or key in self._fetches
            if self._claims.get(key, (0.0, -1))[1] != uid:
                continue
            del self._claims[key]
            if not is_wanted and service.store.get(key) is None and service.directory is not None:
                service.directory.release(key)

    async def _answer(self, path: str, uid: int, reply_to: socket.socket) -> None:
        account = account_of(uid)
        self._waiting[account] += 1
        try:
            reply = Reply.SOURCE
            if self._service.is_source(path) and self._service.directory is not None:
                reply = await self._find(path, uid, reply_to)
            _say(reply_to, reply)
        finally:
            reply_to.close()
            self._waiting[account] -= 1
            if not self._waiting[account]:
                del self._waiting[account]

    async def _find(self, path: str, uid: int, reply_to: socket.socket) -> Reply:
        service = self._service
        keys = self._keys(path, uid)
        for key in keys:
            if service.store.get(key) is not None:
                return Reply.COPY
            if key in self._fetches:
                return await self._wait(key, reply_to)
            if key in service.growing:
                return Reply.FOLLOW
        if service.problem:
            return Reply.SOURCE
        for key in keys:
            where = await self._learn(path, key)
            if not where.is_yours:
                task = asyncio.get_running_loop().create_task(self._fetch(key, path, uid, where))
                self._fetches[key] = task
                task.add_done_callback(lambda _, key=key: self._fetches.pop(key, None))  # type: ignore[misc]
                reply = await self._wait(key, reply_to)
                if reply is not Reply.SOURCE:
                    return reply
            else:
                self._claim(key, uid)
        return Reply.SOURCE

    async def _learn(self, path: str, key: str) -> Location:
        """Ask the home of a file, and note the answer for other files of its folder."""
        assert self._service.directory is not None
        where = await self._service.directory.ask(key, "")
        self.habits.answered(path, where.is_yours)
        return where

    async def _wait(self, key: str, reply_to: socket.socket) -> Reply:
        """Wait for a file that is being fetched; return the answer to the reader."""
        service = self._service
        began = said = time.monotonic()
        while key in self._fetches:
            await asyncio.sleep(_LOOK_SECONDS)
            now = time.monotonic()
            if now > began + WHOLE_SECONDS and key in service.growing:
                return Reply.FOLLOW
            if now > said + _BEAT_SECONDS:
                said = now
                _say(reply_to, Reply.WAIT)
        return Reply.COPY if service.store.get(key) is not None else Reply.SOURCE

    async def _fetch(self, key: str, path: str, uid: int, where: Location) -> str:
        service = self._service
        folder = os.path.dirname(path)
        device = await service.in_thread(lambda: next(iter(service.devices_of(folder)), 0))

        async def make(identity: Identity) -> PartialCopy:
            copy = await service.create(key, identity.on(device), may_pass=True)
            if copy is None:
                raise OSError("there is no room for a copy")
            copy.set_fetching(True)
            return copy

        fetch = Fetch(key, make)
        problem = await service.follow(fetch, where)
        if problem and fetch.copy is not None and not fetch.copy.is_closed:
            service.give_up(fetch.copy, problem)
        if problem:
            # The next to ask gets the claim, if the home knows of no other node with the file.
            self._claim(key, uid)
        return problem

    def _claim(self, key: str, uid: int) -> None:
        now = time.monotonic()
        self._claims.pop(key, None)
        # The claims are in the order of their expiry.
        while self._claims and next(iter(self._claims.values()))[0] < now:
            del self._claims[next(iter(self._claims))]
        self._claims[key] = now + _CLAIM_SECONDS, uid


def reply_socket(descriptors: Sequence[int]) -> socket.socket:
    """Return the socket to which a lookup is answered; it takes over the descriptor.

    Raises:
        ProtocolError: There is not exactly one descriptor, or it is no Unix stream socket. To
            send to another kind may block, as may closing it.
    """
    if len(descriptors) != 1:
        raise ProtocolError("one socket belongs to a question")
    try:
        found = socket.socket(fileno=descriptors[0])
    except OSError:
        raise ProtocolError("what is to be answered is no socket") from None
    if (found.family, found.type) != (socket.AF_UNIX, socket.SOCK_STREAM):
        found.detach()
        raise ProtocolError("a question is answered to a Unix stream socket")
    return found


def _say(reply_to: socket.socket, reply: Reply) -> None:
    # The reader may have ended, or have filled the socket itself. The flag counts for this call
    # alone, so that no reader can take it away, as it can O_NONBLOCK.
    with suppress(OSError):
        reply_to.send(bytes([reply]), socket.MSG_DONTWAIT)
