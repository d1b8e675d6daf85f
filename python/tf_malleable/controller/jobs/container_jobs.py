# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Containers as jobs: from what their engine says of them to what the reactor knows.

The engine may say the same thing twice, late, or after a restart of either. So
nothing here counts on an order: each time a container is compared with its job.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Collection

from tf_malleable.api.refusal import Refusal
from tf_malleable.controller.jobs.admission import Admission
from tf_malleable.controller.jobs.live import Live
from tf_malleable.controller.jobs.reactor import Reactor
from tf_malleable.controller.ports import Containers, Found
from tf_malleable.linux import pidfds, procfs
from tf_malleable.model import ProcessId
from tf_malleable.scheduling import accounting

# As docker run has it: not the program has failed, but to start it.
_CANNOT_RUN = 125

_log = logging.getLogger(__name__)


class ContainerJobs:
    """Those live jobs that are containers. Not thread-safe: one asyncio loop."""

    def __init__(self, reactor: Reactor, admission: Admission, containers: Containers) -> None:
        self._reactor = reactor
        self._roster = reactor.roster
        self._admission = admission
        self._containers = containers
        # Refused ones, so that each is complained of once.
        self._refused: set[str] = set()

    async def start(self) -> None:
        """Take up the containers there are, and those that come."""
        await self._containers.start(self)

    async def close(self) -> None:
        """Take up no more; what was told to containers so far is done first."""
        await self._containers.close()

    async def take(self, container: str) -> tuple[Live, bool]:
        """Make a container a job, or find the job it is.

        Returns:
            The job, and whether it is new.

        Raises:
            Refusal: It cannot be one.
        """
        found = await self._containers.find(container)
        known = self._roster.in_container(found.info.id)
        if known is not None:
            return known, False
        if found.state == "ended":
            raise Refusal(409, f"the container {found.info.name} has ended")
        return self._add(found), True

    def seen(self, found: Found) -> None:
        """A container is as it says; it may have been told before."""
        self._roster.record_missed_exit(found.info.id, found.exit_code)
        live = self._roster.in_container(found.info.id)
        if live is not None:
            self._compare(live, found)
        elif found.state != "ended":
            try:
                self._add(found)
            except Refusal as refusal:
                if found.info.id not in self._refused:
                    self._refused.add(found.info.id)
                    name = found.info.name
                    _log.warning("container %s is no job: %s", name, refusal.sentence)

    def gone(self, container: str) -> None:
        """There is no container with this id any more, or never was."""
        self._refused.discard(container)
        self._roster.record_missed_exit(container, None)
        live = self._roster.in_container(container)
        # One that runs cannot go; that it has ended is seen by its process.
        if live is not None and live.record.process is None:
            self._roster.end(live, None if live.record.started is None else _CANNOT_RUN)

    def all_seen(self, containers: Collection[str]) -> None:
        """These are all there are: an engine answers for the first time, or again."""
        self._refused.intersection_update(containers)
        for missed in self._roster.missed.difference(containers):
            self.gone(missed)
        for live in tuple(self._roster.live.values()):
            container = live.record.container
            if container is not None and container.id not in containers:
                self.gone(container.id)

    def _add(self, found: Found) -> Live:
        process, pidfd = self._process(found)
        now = self._reactor.now()
        running = process is not None
        try:
            record = self._admission.record(
                found.request, found.uid, now, process, found.info, running=running
            )
        except Refusal:
            if pidfd is not None:
                os.close(pidfd)
            raise
        live = self._roster.add(record, pidfd)
        self._reactor.react()
        self._admission.store.save(live.record)
        return live

    @staticmethod
    def _process(found: Found) -> tuple[ProcessId | None, int | None]:
        """Return the first process of a container and its pidfd; nothing if not started."""
        if found.pid is None:
            return None, None
        process = procfs.identify(found.pid)
        if process is None:
            raise Refusal(
                409,
                f"process {found.pid} of the container {found.info.name} cannot be seen from"
                " here: it has ended, or its engine is on another host",
            )
        try:
            pidfd = pidfds.open_pidfd(process)
        except OSError as error:
            raise Refusal(503, f"no more jobs can be taken: {error.strerror}") from None
        if pidfd is None:
            raise Refusal(409, f"the container {found.info.name} has ended")
        return process, pidfd

    def _compare(self, live: Live, found: Found) -> None:
        if found.state == "ended":
            self._roster.end(live, found.exit_code)
        elif found.pid is not None and live.record.process is None:
            try:
                process, pidfd = self._process(found)
            except Refusal:
                return  # It has ended since; that will be told, too.
            assert process is not None
            assert pidfd is not None
            if live.record.state == "waiting":
                # Started by somebody else: it computes, so it joins and does not queue.
                live.amend(accounting.joined(live.record, self._reactor.now()))
            self._roster.attach_process(live, process, pidfd)
            self._reactor.react_soon()
