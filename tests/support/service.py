# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""A service without its socket, and real processes to be its jobs."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest

from tests.support.deadline import DEADLINE
from tf_malleable.api.schema.grant_line import GrantLine
from tf_malleable.api.schema.messages import JobStatus
from tf_malleable.api.schema.refusal import Refusal
from tf_malleable.api.schema.requests import Acknowledgement, Submission
from tf_malleable.controller.jobs.provision import Provision
from tf_malleable.controller.ports import Containers, Power
from tf_malleable.controller.processes.cpu_weights import CpuWeights
from tf_malleable.controller.service import Service, ServiceParts
from tf_malleable.controller.state.store import Store
from tf_malleable.linux.processes import procfs
from tf_malleable.linux.processes.peer_credentials import Peer
from tf_malleable.model import Budget, Machine
from tf_malleable.model.quota import NO_QUOTAS, Quotas

ME = Peer(os.getpid(), os.getuid(), os.getgid())
BUSY = "while True: pass"
# More CPUs than most test machines have: confining to those that are not there does nothing.
CPUS = 4


def refused(status: int, sentence: str) -> Any:
    """Expect a refusal with this status, in whose sentence this occurs."""
    return pytest.raises(Refusal, check=lambda e: e.status == status and sentence in e.sentence)


class Program:
    """A real process that does nothing, or computes, until it is ended."""

    def __init__(self, code: str = "import time; time.sleep(600)", uid: int | None = None) -> None:
        self._process = subprocess.Popen([sys.executable, "-c", code], start_new_session=True)
        self.pid = self._process.pid
        # To the service, it is this user's.
        self.peer = Peer(self.pid, os.getuid() if uid is None else uid, os.getgid())

    def send(self, number: signal.Signals) -> None:
        self._process.send_signal(number)

    def state(self) -> str:
        stat = procfs.read_stat(self.pid)
        return "gone" if stat is None else stat.state

    def has(self, mask: str, number: signal.Signals) -> bool:
        """Return whether a signal is in its mask SigIgn (ignored) or SigCgt (handled)."""
        status = Path(f"/proc/{self.pid}/status").read_text()
        bits = next(line.split()[1] for line in status.splitlines() if line.startswith(mask))
        return bool(int(bits, 16) >> (number - 1) & 1)

    def wait(self) -> int:
        return self._process.wait(DEADLINE)

    def end(self) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.pid, signal.SIGKILL)
        self._process.wait()


class Agent:
    """Watches a job's grants as its agent does; acknowledges them if told to."""

    def __init__(self, service: Service, program: Program, job: str, obeys: bool = True) -> None:
        self.lines: list[GrantLine] = []
        self._service, self._program, self._job, self._obeys = service, program, job, obeys
        self._task = asyncio.create_task(self._watch())

    async def _watch(self) -> None:
        peer = self._program.peer
        stream = self._service.watch(peer, self._job)
        async with contextlib.aclosing(stream):
            async for line in stream:
                self.lines.append(line)
                if self._obeys and line.state == "running":
                    self._service.acknowledge(peer, self._job, Acknowledgement(line.serial))

    async def hang_up(self) -> None:
        self._task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await self._task


class Host:
    """A service on a machine of CPUS CPUs, with programs that are ended with it."""

    def __init__(self, service: Service) -> None:
        self.service = service
        self.programs: list[Program] = []
        self.agents: list[Agent] = []

    def program(
        self, code: str = "import time; time.sleep(600)", uid: int | None = None
    ) -> Program:
        self.programs.append(Program(code, uid))
        return self.programs[-1]

    def submit(self, program: Program, name: str = "job", **fields: object) -> str:
        status, new = self.service.submit(program.peer, Submission(name=name, **fields))  # type: ignore[arg-type]
        assert new
        assert status.is_caller
        return status.id

    async def job(
        self, name: str = "job", obeys: bool = True, uid: int | None = None, **fields: object
    ) -> str:
        """Submit a program that sleeps, with an agent; return the job's id."""
        program = self.program(uid=uid)
        job = self.submit(program, name, **fields)
        self.agents.append(Agent(self.service, program, job, obeys))
        await asyncio.sleep(0.01)
        return job

    async def until(self, condition: Callable[[], object], seconds: float = DEADLINE) -> None:
        deadline = asyncio.get_running_loop().time() + seconds
        while not condition():
            assert asyncio.get_running_loop().time() < deadline, self.service.jobs()
            await asyncio.sleep(0.01)

    def granted(self) -> list[int]:
        """Return how many cores each live job is granted, in order of arrival."""
        return [len(job.granted) for job in self.service.jobs()]

    def states(self) -> list[str]:
        return [job.state for job in self.service.jobs()]

    def status(self, job: str) -> JobStatus:
        return self.service.status(job)


@contextlib.asynccontextmanager
async def host(
    state: Path,
    policy: str = "equal",
    cpus: int = CPUS,
    close: bool = True,
    containers: Containers | None = None,
    quotas: Quotas = NO_QUOTAS,
    provision: Provision | None = None,
    power: Power | None = None,
    safe: Budget | None = None,
    weights: CpuWeights | None = None,
) -> AsyncIterator[Host]:
    """Run a service; `close=False` leaves it as a kill would."""
    store = Store(state)
    parts = ServiceParts(containers, quotas, provision or Provision(), power, safe, weights=weights)
    service = Service(Machine.flat(cpus), policy, store, "0", parts)
    here = Host(service)
    try:
        await service.start()
        yield here
    finally:
        try:
            for agent in here.agents:
                await agent.hang_up()
            if close:
                await service.close()
                store.close()
        finally:
            for program in here.programs:
                program.end()
