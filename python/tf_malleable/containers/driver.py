# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Driver of one container: brings it into its wanted state, and reads its actual state.

Each command replaces the previous one. If the engine is down, the command is retried until
the engine is back. Meanwhile the container's CPUs are changed in its cgroup, because they may
have been granted to others.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Final, Literal, Protocol

from tf_malleable.api.schema.messages import ContainerInfo
from tf_malleable.containers.engine import (
    Engine,
    EngineGoneError,
    EngineRefusedError,
    NoSuchContainerError,
    Update,
    was_never_started,
)
from tf_malleable.controller.ports import Look
from tf_malleable.linux.cgroups import cgroup_files
from tf_malleable.linux.cgroups.cgroup_files import CgroupFiles, State
from tf_malleable.model import Cpuset, format_cpuset

_FIRST_PAUSE: Final = 0.1
_LONGEST_PAUSE: Final = 1.0

_log = logging.getLogger(__name__)


class InThread(Protocol):
    """Calls a function in a thread that may wait for the engine."""

    def __call__(self, function: Callable[[], None]) -> Awaitable[None]:
        """Return once the function has returned, and raise its exception."""


@dataclass(frozen=True)
class Wanted:
    """The wanted state of a container.

    Attributes:
        cpus: CPUs the container may use; empty leaves them unchanged.
        frozen: True if it is to be frozen rather than running.
        ending: Signal to end it with; None does not end it.
    """

    cpus: Cpuset = frozenset()
    frozen: bool = False
    ending: Literal["SIGTERM", "SIGKILL"] | None = None


class Driver:
    """Driver of one container. Not thread-safe: one asyncio loop."""

    def __init__(
        self,
        engine: Engine,
        info: ContainerInfo,
        in_thread: InThread,
        changed: Callable[[], None],
        refused: Callable[[], None],
    ) -> None:
        """Create a driver; it does nothing yet.

        Args:
            engine: The container's engine.
            info: The container.
            in_thread: Runs calls to the engine.
            changed: Called whenever the engine has carried out a command.
            refused: Called in such a thread when the engine refused a command: the container
                may have ended, or could not be started.
        """
        self._engine = engine
        self._info = info
        self._in_thread = in_thread
        self._changed = changed
        self._refused = refused
        self._wanted: Wanted | None = None
        self._is_done = True
        self._problem = ""
        self._files: tuple[int, CgroupFiles] | None = None
        self._in_nano = False
        self._task: asyncio.Task[None] | None = None

    def carry_out(self, cpus: Cpuset, *, frozen: bool) -> None:
        """Run the container on these CPUs, or freeze it; start it if it was never started."""
        last = self._wanted or Wanted()
        if last.ending is None:
            self._want(Wanted(cpus or last.cpus, frozen))

    def end(self, *, by_force: bool) -> None:
        """End the container with SIGTERM or SIGKILL; remove it if it was never started."""
        last = self._wanted or Wanted()
        self._want(Wanted(last.cpus, False, "SIGKILL" if by_force else "SIGTERM"))

    def release(self) -> None:
        """Stop observing the container; the last command is still carried out."""
        self._changed = lambda: None
        self._close_files()

    def _close_files(self) -> None:
        if self._files is not None:
            self._files[1].close()
            self._files = None

    @property
    def is_busy(self) -> bool:
        """Whether a command is still being carried out."""
        return self._task is not None and not self._task.done()

    async def done(self) -> None:
        """Return once the last command was carried out, or has failed."""
        if self._task is not None:
            await asyncio.wait([self._task])

    def _want(self, wanted: Wanted) -> None:
        if wanted == self._wanted and not self._is_done and self.is_busy:
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
                pass  # The engine's events report the end.
            except EngineRefusedError as error:
                self._warn(str(error))
                with suppress(EngineGoneError, EngineRefusedError):
                    await self._in_thread(self._refused)
            except OSError as error:
                self._warn(f"cannot change its CPUs: {error.strerror or error}")
            else:
                self._problem = ""
            self._is_done = wanted == self._wanted
        self._changed()

    def _warn(self, problem: str) -> None:
        """Log a problem once until it is solved: a command may be repeated every second."""
        if problem != self._problem:
            _log.warning("container %s: %s", self._info.name, problem)
        self._problem = problem

    def _bring(self, wanted: Wanted) -> None:
        """Make the engine's calls that lead to the wanted state. Runs in a thread."""
        attributes = self._engine.inspect(self._info.id)
        state = attributes["State"]
        created = was_never_started(state)
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
        try:
            if not is_updated and state["Pid"]:
                with suppress(FileNotFoundError, ProcessLookupError):  # It has just ended.
                    self._write(state["Pid"], wanted)
        finally:
            if not created:
                self._bring_to_freeze(wanted.frozen, state["Paused"])

    def _bring_to_freeze(self, frozen: bool, paused: bool) -> None:
        if frozen and not paused:
            self._engine.pause(self._info.id)
        elif paused and not frozen:
            self._engine.unpause(self._info.id)

    def _is_updated(self, wanted: Wanted) -> bool:
        """Have the engine change the CPUs; return whether it supports that."""
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
        with suppress(EngineRefusedError):  # The container has already ended.
            self._engine.kill(self._info.id, signal)
        if paused:
            with suppress(EngineRefusedError):  # SIGKILL may have unpaused the container.
                self._engine.unpause(self._info.id)

    def look(self, pid: int) -> Look | None:
        """Return the container's state as read from its cgroup; None if it cannot be read.

        Args:
            pid: First process of the container.
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
