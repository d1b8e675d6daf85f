# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Containers as jobs: translates the engine's reports into changes of jobs.

The engine may report an event twice, late, or after a restart of either side. So nothing
here depends on order: each report causes a comparison of a container with its job.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Collection
from contextlib import suppress

from tf_malleable.api.schema.refusal import Refusal
from tf_malleable.controller.jobs.live_job import LiveJob
from tf_malleable.controller.ports import CANNOT_RUN, Containers, Found
from tf_malleable.controller.scheduler.admission import Admission
from tf_malleable.controller.scheduler.reactor import Reactor
from tf_malleable.linux.processes import pidfds, procfs
from tf_malleable.model import ProcessId
from tf_malleable.scheduling.records import time_accounts

_log = logging.getLogger(__name__)


class ContainerJobs:
    """Live jobs that are containers. Not thread-safe: one asyncio loop."""

    def __init__(self, reactor: Reactor, admission: Admission, containers: Containers) -> None:
        self._reactor = reactor
        self._roster = reactor.roster
        self._admission = admission
        self._containers = containers
        # Containers already refused, so that each is logged only once.
        self._refused: set[str] = set()

    async def start(self) -> None:
        """Accept existing containers, and from now on new ones."""
        await self._containers.start(self)

    async def close(self) -> None:
        """Finish pending changes, and accept no more containers."""
        await self._containers.close()

    async def find(self, container: str) -> Found:
        """Return a container that is a job, or may become one.

        Raises:
            Refusal: There is no such container, or it cannot become a job.
        """
        return await self._containers.find(container)

    async def meet(self, pid: int) -> None:
        """Ask the engine for the first process of a container that seems to have just started.

        It may send a request before the engine has reported the start.

        Args:
            pid: Pid of the calling process.
        """
        container = self._roster.unknown_container_of(pid)
        if container is not None:
            with suppress(Refusal):  # No engine answers, or the container has gone.
                self.seen(await self._containers.find(container))

    def take(self, found: Found) -> tuple[LiveJob, bool]:
        """Make a container a job, or find its job.

        Returns:
            The job, and whether it is new.

        Raises:
            Refusal: The container cannot become a job.
        """
        known = self._roster.in_container(found.info.id)
        if known is not None:
            return known, False
        if found.state == "ended":
            raise Refusal(409, f"the container {found.info.name} has ended")
        return self._add(found), True

    def seen(self, found: Found) -> None:
        """Handle a container's current state; it may have been reported before."""
        self._roster.record_missed_exit(
            found.info.id, found.exit_code, out_of_memory=found.out_of_memory
        )
        live = self._roster.in_container(found.info.id)
        if live is None and found.out_of_memory:
            self._roster.note_out_of_memory(found.info.id)
        if live is not None and _was_restarted(live, found):
            self._roster.end(live, None)
            live = None
        if live is not None:
            self._compare(live, found)
        elif found.state != "ended":
            try:
                self._add(found)
            except Refusal as refusal:
                if found.info.id not in self._refused:
                    self._refused.add(found.info.id)
                    name = found.info.name
                    _log.warning("cannot accept container %s: %s", name, refusal.sentence)

    def gone(self, container: str) -> None:
        """Handle that there is no container with this id, or no longer."""
        self._refused.discard(container)
        self._roster.record_missed_exit(container, None)
        live = self._roster.in_container(container)
        # A running container cannot vanish; its pidfd tells when its process has ended.
        if live is not None and live.record.process is None:
            self._roster.end(live, None if live.record.started is None else CANNOT_RUN)

    def all_seen(self, containers: Collection[str]) -> None:
        """Handle the full list of containers, after the engine (re)connects."""
        self._refused.intersection_update(containers)
        for missed in self._roster.missed.difference(containers):
            self.gone(missed)
        for live in tuple(self._roster.live.values()):
            container = live.record.container
            if container is not None and container.id not in containers:
                self.gone(container.id)

    def _add(self, found: Found) -> LiveJob:
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
        self._reactor.save_soon()
        return live

    @staticmethod
    def _process(found: Found) -> tuple[ProcessId | None, int | None]:
        """Return a container's first process and the pidfd of that; None each if not started."""
        if found.pid is None:
            return None, None
        process = procfs.identify(found.pid)
        if process is None:
            raise Refusal(
                409,
                f"cannot see process {found.pid} of the container {found.info.name}:"
                " it has ended, or its engine is on another host",
            )
        try:
            pidfd = pidfds.open_pidfd(process)
        except OSError as error:
            raise Refusal(503, f"cannot accept more jobs: {error.strerror}") from None
        if pidfd is None:
            raise Refusal(409, f"the container {found.info.name} has ended")
        return process, pidfd

    def _compare(self, live: LiveJob, found: Found) -> None:
        if found.state == "ended":
            self._roster.end(live, found.exit_code, out_of_memory=found.out_of_memory)
        elif found.pid is not None and live.record.process is None:
            try:
                process, pidfd = self._process(found)
            except Refusal:
                return  # The process has ended since; the engine will report that as well.
            assert process is not None
            assert pidfd is not None
            if live.record.state == "waiting":
                # It was started without the controller: it is running, so it does not queue.
                now = self._reactor.now()
                self._admission.store.add_span(time_accounts.span(live.record, now))
                live.amend(time_accounts.joined(live.record, now))
            self._roster.attach_process(live, process, pidfd)
            self._reactor.react_soon()


def _was_restarted(live: LiveJob, found: Found) -> bool:
    """Return whether a job's process has ended and its container now runs another one."""
    process = live.record.process
    if process is None or found.pid is None or procfs.is_alive(process):
        return False
    # The report may be outdated.
    return procfs.identify(found.pid) not in (None, process)
