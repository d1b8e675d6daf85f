# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Fair turns: one piece of work at a time, and users take turns however much each of them wants."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Hashable


class FairTurns:
    """A lock that users get in turn. Not thread-safe: one asyncio loop."""

    def __init__(self) -> None:
        self._is_taken = False
        # In the order of their next turns.
        self._waiting: dict[Hashable, deque[asyncio.Future[None]]] = {}

    async def acquire(self, user: Hashable) -> None:
        """Wait for a turn, which release() ends."""
        if not self._is_taken:
            self._is_taken = True
            return
        mine = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(user, deque()).append(mine)
        try:
            await mine
        except asyncio.CancelledError:
            if mine.done() and not mine.cancelled():
                self.release()
            raise

    def release(self) -> None:
        """End the turn; the next user has one."""
        while self._waiting:
            user = next(iter(self._waiting))
            waiting = self._waiting.pop(user)
            found = None
            while waiting and (found is None or found.done()):
                found = waiting.popleft()
            if waiting:
                self._waiting[user] = waiting  # Now the last one.
            if found is not None and not found.done():
                found.set_result(None)
                return
        self._is_taken = False
