# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""A real controller's service with many jobs on CPUs that need not be there.

The jobs are processes that sleep, and their agents are in this process: they acknowledge grants and
report the progress that a test tells them to.
"""

from __future__ import annotations

import asyncio
import os
import subprocess
import threading
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any, TypeVar

from tests.support.deadline import DEADLINE
from tests.support.service import Agent
from tf_malleable.api.schema.requests import Progress, Submission
from tf_malleable.controller.http.application import application
from tf_malleable.controller.http.server import Server
from tf_malleable.controller.http.unix_socket import UnixListener
from tf_malleable.controller.ports import Power
from tf_malleable.controller.service import Service, ServiceParts
from tf_malleable.controller.state.store import Store
from tf_malleable.linux.processes.peer_credentials import Peer
from tf_malleable.model import Machine

_Value = TypeVar("_Value")


class Sleeper:
    """A process that sleeps, as a job."""

    def __init__(self) -> None:
        self.process = subprocess.Popen(["sleep", "3600"], start_new_session=True)
        self.peer = Peer(self.process.pid, os.getuid(), os.getgid())

    def end(self) -> None:
        self.process.kill()
        self.process.wait()


class Crowd:
    """A service with its socket, in a thread of its own."""

    def __init__(
        self, directory: Path, cpus: int, policy: str = "equal", power: Power | None = None
    ) -> None:
        self.socket = directory / "run" / "controller.sock"
        self._state = directory / "controller.db"
        self._cpus, self._policy, self._power = cpus, policy, power
        self.sleepers: dict[str, Sleeper] = {}
        self.agents: list[Agent] = []
        self._start()

    def _start(self) -> None:
        self._ready = threading.Event()
        self._thread = threading.Thread(target=lambda: asyncio.run(self._serve()))
        self._thread.start()
        assert self._ready.wait(DEADLINE)

    async def _serve(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._stop = asyncio.Event()
        listener = UnixListener(self.socket)
        store = Store(self._state)
        machine = Machine.flat(self._cpus)
        self.service = Service(
            machine, self._policy, store, "1.2.3", ServiceParts(power=self._power)
        )
        await self.service.start()
        server = await Server.start(application(self.service), listener.socket, 1000)
        self._ready.set()
        await self._stop.wait()
        for agent in self.agents:
            await agent.hang_up()
        await self.service.close()
        await server.close()
        listener.close()
        store.close()

    def run(self, work: Coroutine[Any, Any, _Value]) -> _Value:
        """Run a coroutine in the service's loop and return its result."""
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(60)

    def do(self, work: Callable[[], _Value]) -> _Value:
        """Call a function in the service's loop and return its result."""

        async def call() -> _Value:
            return work()

        return self.run(call())

    def job(self, name: str, *, obeys: bool = True, **fields: object) -> str:
        """Submit a job and return its id."""
        sleeper = Sleeper()

        async def submit() -> str:
            submission = Submission(name=name, **fields)  # type: ignore[arg-type]
            status, _ = self.service.submit(sleeper.peer, submission)
            self.agents.append(Agent(self.service, sleeper, status.id, obeys))  # type: ignore[arg-type]
            return status.id

        job = self.run(submit())
        self.sleepers[job] = sleeper
        return job

    def report(self, job: str, steps: float, total: float | None = None) -> None:
        """Report a job's progress."""
        peer = self.sleepers[job].peer
        self.do(lambda: self.service.progress(peer, job, Progress(steps, total)))

    def end(self, job: str) -> None:
        """End a job's process."""
        self.sleepers.pop(job).end()

    def close(self) -> None:
        """End everything."""
        self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join(30)
        for sleeper in self.sleepers.values():
            sleeper.end()
