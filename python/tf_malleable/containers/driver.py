# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Brings one container to where it was told to be, and tells whether it is there.

What it is told replaces what it was told before: only the last counts. If the engine
is gone it is tried again until it is back; its CPUs are changed in its cgroup meanwhile,
for others may have been granted them.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Final, Literal, Protocol

from tf_malleable.api.messages import ContainerInfo
from tf_malleable.containers.engine import (
    Engine,
    EngineGoneError,
    EngineRefusedError,
    NoSuchContainerError,
    Update,
)
from tf_malleable.controller.ports import Look
from tf_malleable.linux import cgroup_files
from tf_malleable.linux.cgroup_files import CgroupFiles, State
from tf_malleable.model import Cpuset, format_cpuset

_FIRST_PAUSE: Final = 0.1
_LONGEST_PAUSE: Final = 1.0

_log = logging.getLogger(__name__)


class InThread(Protocol):
    """Calls a function in a thread that may wait for the engine."""

    def __call__(self, function: Callable[[], None]) -> Awaitable[None]:
        """Return once it has returned, and raise what it raises."""


@dataclass(frozen=True)
class Wanted:
    """Where a container is to be.

    Attributes:
        cpus: Empty: as they were.
        frozen: It is to be frozen, rather than to run.
        ending: Which signal is to end it; None lets it be.
    """

    cpus: Cpuset = frozenset()
    frozen: bool = False
    ending: Literal["SIGTERM", "SIGKILL"] | None = None


class Driver:
    """One container. Not thread-safe: one asyncio loop."""

    def __init__(
        self,
        engine: Engine,
        info: ContainerInfo,
        in_thread: InThread,
        changed: Callable[[], None],
        refused: Callable[[], None],
    ) -> None:
        """Prepare to drive a container.

        Args:
            engine: Whose it is.
            info: Which container.
            in_thread: Where calls to the engine are made.
            changed: Is called each time the engine has done what was wanted.
            refused: Is called in such a thread when the engine did not: it may have
                ended, or could not be started.
        """
        self._engine = engine
        self._info = info
        self._in_thread = in_thread
        self._changed = changed
        self._refused = refused
        self._wanted: Wanted | None = None
        self._is_done = True
        self._files: tuple[int, CgroupFiles] | None = None
        self._in_nano = False
        self._task: asyncio.Task[None] | None = None

    def carry_out(self, cpus: Cpuset, *, frozen: bool) -> None:
        """Have it run on these CPUs, or frozen; start it if it was never started."""
        last = self._wanted or Wanted()
        if last.ending is None:
            self._want(Wanted(cpus or last.cpus, frozen))

    def end(self, *, by_force: bool) -> None:
        """Tell it to end, with SIGTERM or SIGKILL; remove it if it was never started."""
        last = self._wanted or Wanted()
        self._want(Wanted(last.cpus, False, "SIGKILL" if by_force else "SIGTERM"))

    def let_go(self) -> None:
        """Do nothing more to it but what it was told last."""
        self._changed = lambda: None
        self._close_files()

    def _close_files(self) -> None:
        if self._files is not None:
            self._files[1].close()
            self._files = None

    @property
    def is_busy(self) -> bool:
        """Whether it was not done yet what it was told."""
        return self._task is not None and not self._task.done()

    async def done(self) -> None:
        """Return once it is where it was told to be, or cannot be told now."""
        if self._task is not None:
            await asyncio.wait([self._task])

    def _want(self, wanted: Wanted) -> None:
        if wanted == self._wanted and not self._is_done:
            return
        self._wanted = wanted
        self._is_done = False
        if self._task is None or self._task.done():
            self._task = asyncio.get_running_loop().create_task(self._drive())

    async def _drive(self) -> None:
        pause = _FIRST_PAUSE
        while not self._is_done and self._wanted is not None:
            wanted = self._wanted
            try:
                await self._in_thread(lambda wanted=wanted: self._bring(wanted))  # type: ignore[misc]
            except EngineGoneError:
                if self._files is not None:
                    with suppress(OSError):
                        self._write(self._files[0], wanted)
                    self._changed()
                await asyncio.sleep(pause)
                pause = min(2 * pause, _LONGEST_PAUSE)
                continue
            except NoSuchContainerError:
                pass  # That it has gone is seen elsewhere.
            except EngineRefusedError as error:
                _log.info("container %s: %s", self._info.name, error)
                with suppress(EngineGoneError):
                    await self._in_thread(self._refused)
            self._is_done = wanted == self._wanted
        self._changed()

    def _bring(self, wanted: Wanted) -> None:
        """Tell the engine what is missing. In a thread."""
        attributes = self._engine.inspect(self._info.id)
        state = attributes["State"]
        created = state["Status"] in ("created", "configured", "initialized")
        if wanted.ending is not None:
            self._bring_to_end(wanted.ending, created, state["Paused"])
            return
        if not created and not state["Running"]:
            return
        self._in_nano = bool(attributes["HostConfig"].get("NanoCpus"))
        is_updated = not wanted.cpus or self._is_updated(wanted)
        if created and not wanted.frozen and not state.get("Error"):
            self._engine.start(self._info.id)
            state = self._engine.inspect(self._info.id)["State"]
        if not is_updated and state["Pid"]:
            with suppress(FileNotFoundError, ProcessLookupError):  # It has ended since.
                self._write(state["Pid"], wanted)
        if created:
            return
        if wanted.frozen and not state["Paused"]:
            self._engine.pause(self._info.id)
        elif not wanted.frozen and state["Paused"]:
            self._engine.unpause(self._info.id)

    def _is_updated(self, wanted: Wanted) -> bool:
        """Have the engine change the CPUs; return whether it can do that."""
        try:
            self._engine.update(self._info.id, self._update(wanted.cpus))
        except NoSuchContainerError:
            return False
        return True

    def _write(self, pid: int, wanted: Wanted) -> None:
        change = self._update(wanted.cpus)
        if wanted.cpus:
            cgroup_files.write(pid, cpuset=change.cpuset, quota_cpus=change.quota_cpus)

    def _update(self, cpus: Cpuset) -> Update:
        if self._info.resize == "quota":
            return Update(quota_cpus=len(cpus), in_nano=self._in_nano)
        return Update(cpuset=format_cpuset(cpus))

    def _bring_to_end(self, signal: str, created: bool, paused: bool) -> None:
        if created:
            self._engine.remove(self._info.id)
            return
        with suppress(EngineRefusedError):  # It has ended already.
            self._engine.kill(self._info.id, signal)
        if paused:
            with suppress(EngineRefusedError):  # SIGKILL has done that as well.
                self._engine.unpause(self._info.id)

    def look(self, pid: int) -> Look | None:
        """Return what the kernel says of it, None if nothing.

        Args:
            pid: Its first process.
        """
        try:
            if self._files is None or self._files[0] != pid:
                self._close_files()
                self._files = (pid, CgroupFiles(pid))
            state = self._files[1].read()
        except (OSError, ValueError):
            return None
        wanted = self._wanted
        return Look(
            in_force=wanted is None or (state.frozen == wanted.frozen and self._has(wanted, state)),
            stopped=state.frozen and self._is_done and not (wanted and wanted.frozen),
            cpu_seconds=state.cpu_seconds,
            pids=state.pids,
        )

    def _has(self, wanted: Wanted, state: State) -> bool:
        if not wanted.cpus:
            return True
        if self._info.resize == "quota":
            return state.quota_cpus == len(wanted.cpus)
        return state.cpus == wanted.cpus
