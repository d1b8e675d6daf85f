# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Coordinator poller: reads the coordinators' status and tells them the granted members.

The wire protocol of elastic training blocks, so each request runs in a thread of a pool.
"""

from __future__ import annotations

import asyncio
import logging
import socket
import time
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Final

from tf_malleable.cluster import resource_names
from tf_malleable.cluster.observe.training_progress import TrainingProgress, read
from tf_malleable.elastic.generation import Address
from tf_malleable.elastic.links import messages
from tf_malleable.elastic.links.errors import MeshError

_ANSWER_SECONDS: Final = 2.0
_THREADS: Final = 16
# Maximum age of a report that decisions rely on.
_STALE_SECONDS: Final = 4.0
# What a broken connection or an answer that is none raises.
_PROBLEMS: Final = (
    OSError, EOFError, MeshError, AttributeError, KeyError, TypeError, ValueError,
)  # fmt: skip
_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class CoordinatorAt:
    """A job's coordinator, and what the operator tells it.

    Attributes:
        host: Address of the coordinator's pod.
        token: Token of the job.
        shards: Number of shards of the job.
        workers: Number of granted workers.
        servers: Number of granted servers.
    """

    host: str
    token: str
    shards: int
    workers: int
    servers: int


class CoordinatorPoller:
    """Polls the coordinators of jobs."""

    def __init__(self, poll: float, changed: Callable[[], None]) -> None:
        """Create a poller that follows no coordinators yet.

        Args:
            poll: Interval between two requests to a coordinator, in seconds.
            changed: Called when a coordinator reports something new.
        """
        self._poll, self._changed = poll, changed
        self._pool = ThreadPoolExecutor(_THREADS, "tfm-coordinators")
        self._wanted: dict[str, CoordinatorAt] = {}
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._said: dict[str, tuple[float, TrainingProgress]] = {}

    def follow(self, wanted: Mapping[str, CoordinatorAt]) -> None:
        """Poll exactly these coordinators from now on, given by the jobs' uids."""
        self._wanted = dict(wanted)
        for uid in [uid for uid in self._tasks if uid not in wanted]:
            self._tasks.pop(uid).cancel()
            self._said.pop(uid, None)
        for uid in wanted.keys() - self._tasks.keys():
            self._tasks[uid] = asyncio.create_task(self._ask_often(uid))

    def progress(self) -> dict[str, TrainingProgress]:
        """Return the recent reports, by the jobs' uids."""
        since = time.monotonic() - max(_STALE_SECONDS, 4 * self._poll)
        return {uid: said for uid, (at, said) in self._said.items() if at >= since}

    async def close(self) -> None:
        """Stop polling and close all connections."""
        tasks = list(self._tasks.values())
        self.follow({})
        await asyncio.gather(*tasks, return_exceptions=True)
        self._pool.shutdown(wait=False)

    async def _ask_often(self, uid: str) -> None:
        loop = asyncio.get_running_loop()
        talk = _Talk()
        try:
            while True:
                where = self._wanted[uid]
                try:
                    said = await loop.run_in_executor(self._pool, talk.ask, where)
                    progress = read(said)
                except _PROBLEMS as error:
                    _log.debug("coordinator at %s: %r", where.host, error)
                    talk.close()
                else:
                    before = self._said.get(uid)
                    self._said[uid] = time.monotonic(), progress
                    if before is None or before[1] != progress:
                        self._changed()
                await asyncio.sleep(self._poll)
        finally:
            talk.close()


class _Talk:
    """Connection to a coordinator, opened on demand."""

    def __init__(self) -> None:
        self._connection: socket.socket | None = None
        self._told: CoordinatorAt | None = None

    def ask(self, where: CoordinatorAt) -> dict[str, Any]:
        """Return a coordinator's status; errors of the wire protocol are passed on."""
        deadline = time.monotonic() + _ANSWER_SECONDS
        known = self._told
        if known is not None and (known.host, known.token) != (where.host, where.token):
            self.close()
        if self._connection is None:
            address = Address(where.host, resource_names.PORT)
            self._connection = messages.connect(address, bytes.fromhex(where.token), deadline)
        if self._told != where:
            # With a minimum of 1, the last worker that is to leave waits for its replacement.
            numbers = {"workers": where.workers, "servers": where.servers, "least": 1}
            numbers |= {"most": where.shards, "most_servers": where.servers, "can_decide": False}
            messages.send(self._connection, {"kind": "supervise", **numbers}, deadline)
            self._told = where
        messages.send(self._connection, {"kind": "status"}, deadline)
        while True:
            said = messages.receive(self._connection, deadline)
            if said.get("kind") == "status":
                return said

    def close(self) -> None:
        connection, self._connection, self._told = self._connection, None, None
        if connection is not None:
            with suppress(OSError):
                connection.close()
