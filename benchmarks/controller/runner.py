# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Runs the jobs of one workload in one configuration, and leaves no process behind."""

from __future__ import annotations

import os
import re
import select
import signal
import subprocess
import time
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from controller.configurations import Configuration, Slot, command, environment
from controller.workloads import Job

_STEPS: Final = re.compile(r"(\d+) steps")


@dataclass(frozen=True)
class Outcome:
    """What became of a job. Times are seconds after the first arrival.

    Attributes:
        name: The job's.
        arrival: When it arrived.
        started: When its process was started.
        ended: When its process was gone.
        exit_code: As subprocess has it: negative for a signal.
        steps: Training steps it says it has done; None if it says nothing.
        wanted: Training steps it was to do.
        cpu_seconds: CPU time of its process.
        last_words: The end of what it wrote, if it failed.
    """

    name: str
    arrival: float
    started: float
    ended: float
    exit_code: int
    steps: int | None
    wanted: int
    cpu_seconds: float
    last_words: str = ""

    @property
    def failed(self) -> bool:
        """True unless it ended well and did all it was to do."""
        return self.exit_code != 0 or self.steps != self.wanted


@dataclass(frozen=True)
class _Started:
    job: Job
    slot: Slot
    process: subprocess.Popen[bytes]
    pidfd: int
    at: float
    output: Path


class Runner:
    """Starts jobs and waits for them. Use it once."""

    def __init__(
        self,
        configuration: Configuration,
        folder: Path,
        socket: Path | None = None,
        say: Callable[[str], None] = lambda text: None,
        command: Callable[[Job, Slot, Configuration], list[str]] = command,
    ) -> None:
        """Prepare.

        Args:
            configuration: How jobs are started.
            folder: Where their output goes.
            socket: The controller's, if there is one.
            say: Is told of every start and end.
            command: Returns what to start for a job.
        """
        self._command = command
        self._configuration = configuration
        self._folder = folder
        self._socket = socket
        self._say = say
        self._poll = select.poll()
        self._running: dict[int, _Started] = {}
        self._free = None if configuration.slots is None else deque(configuration.slots)
        self._begin = 0.0
        self._count = 0

    def run(self, jobs: Sequence[Job]) -> list[Outcome]:
        """Run all jobs; return their outcomes in order of their ends."""
        waiting = deque(sorted(jobs, key=lambda job: job.arrival))
        outcomes: list[Outcome] = []
        self._begin = time.monotonic()
        try:
            while waiting or self._running:
                while waiting and waiting[0].arrival <= self._now() and self._has_place:
                    self._start(waiting.popleft())
                outcomes += self._wait(waiting[0].arrival if waiting else None)
        finally:
            self._kill()
        return outcomes

    @property
    def _has_place(self) -> bool:
        return self._free is None or bool(self._free)

    def _now(self) -> float:
        return time.monotonic() - self._begin

    def _start(self, job: Job) -> None:
        slot = Slot() if self._free is None else self._free.popleft()
        self._count += 1
        output = self._folder / f"{self._count}.log"
        at = self._now()
        with output.open("wb") as file:
            process = subprocess.Popen(
                self._command(job, slot, self._configuration),
                stdin=subprocess.DEVNULL,
                stdout=file,
                stderr=subprocess.STDOUT,
                env=environment(slot, self._socket),
                # Ctrl-C is for us: we end the jobs. And a group of its own to end.
                start_new_session=True,
            )
        pidfd = os.pidfd_open(process.pid)
        self._running[pidfd] = _Started(job, slot, process, pidfd, at, output)
        self._poll.register(pidfd, select.POLLIN)
        self._say(f"{at:6.1f} s  {job.name} starts")

    def _wait(self, next_arrival: float | None) -> list[Outcome]:
        """Wait until jobs end or, if it could start, the next one arrives."""
        timeout = None
        if next_arrival is not None and self._has_place:
            timeout = max(0.0, next_arrival - self._now()) * 1000 + 1
        return [self._finish(pidfd) for pidfd, _ in self._poll.poll(timeout)]

    def _finish(self, pidfd: int) -> Outcome:
        started = self._running.pop(pidfd)
        ended = self._now()
        self._poll.unregister(pidfd)
        os.close(pidfd)
        _, status, usage = os.wait4(started.process.pid, 0)
        exit_code = started.process.returncode = os.waitstatus_to_exitcode(status)
        if self._free is not None:
            self._free.append(started.slot)
        job, text = started.job, started.output.read_text(errors="replace")
        found = _STEPS.findall(text)
        outcome = Outcome(
            name=job.name,
            arrival=job.arrival,
            started=started.at,
            ended=ended,
            exit_code=exit_code,
            steps=int(found[-1]) if found else None,
            wanted=job.steps,
            cpu_seconds=usage.ru_utime + usage.ru_stime,
        )
        if outcome.failed:
            outcome = replace(outcome, last_words=text[-500:])
        self._say(f"{ended:6.1f} s  {job.name} {'FAILED' if outcome.failed else 'ends'}")
        return outcome

    def _kill(self) -> None:
        for started in self._running.values():
            with suppress(ProcessLookupError):
                os.killpg(started.process.pid, signal.SIGKILL)
        for started in self._running.values():
            started.process.wait()
            os.close(started.pidfd)
        self._running.clear()
