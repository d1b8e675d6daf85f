# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""A controller and jobs of which something is killed at random, and what must hold meanwhile."""

from __future__ import annotations

import os
import random
import secrets
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import psutil

from tests.support.controllers import TFM, Controller, wait_for
from tests.support.deadline import DEADLINE

KINDS = ("job", "agent", "controller")
# How often each is killed, of so many kills.
_OFTEN = (4, 3, 2)
_PAUSES_SECONDS = (0.2, 0.8)
_DOWN_SECONDS = 0.5
_STEP_SECONDS = 0.02
_LOOK_SECONDS = 0.25
_LASTING_SHARE = 0.3
# More than there are CPUs, so that some wait.
_JOBS = 5
_CPUS = sorted(os.sched_getaffinity(0))[:2]
# A main process that starts another agent when one is killed. $0 is Python.
_SCRIPT = 'while :; do "$0" -c "import tf_malleable, time; time.sleep(600)"; sleep 0.05; done'
# A core may be free for so long although a job could use it.
_LOST_SECONDS = 1.0
# The controller looks for new processes once a second, and then confines them.
_UNCONFINED_SECONDS = 2.5

Status = dict[str, Any]


class Kills:
    """A controller of at most two CPUs, with jobs that are replaced when they end."""

    def __init__(self, directory: Path, seed: int) -> None:
        """Start the controller and the jobs.

        Args:
            directory: For its files.
            seed: Seed of what is killed, and when.
        """
        self.kills: Counter[str] = Counter()
        self._random = random.Random(seed)
        self._directory = directory
        self._mark = f"TFM_TEST_MARK={secrets.token_hex(8)}"
        self._controller = self._start_controller()
        self._runs: list[subprocess.Popen[bytes]] = []
        self._next: list[str] = []
        self._kill_at = self._look_at = 0.0
        self._free_since: float | None = None
        self._outside: dict[tuple[str, tuple[int, ...]], float] = {}
        # Pid of the main process by job, also of those that have ended.
        self._mains: dict[str, int] = {}

    def __enter__(self) -> Kills:
        return self

    def __exit__(self, *_: object) -> None:
        # Not killed: it might leave cgroups frozen, in which nothing can be killed.
        self._controller.process.terminate()
        try:
            self._controller.process.communicate(timeout=DEADLINE)
        finally:
            self._controller.process.kill()
            wait_for(lambda: not self._kill_left())

    def _kill_left(self) -> list[int]:
        """Kill all processes of jobs; return those that there were."""
        marked = self.left()
        for pid in marked:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        self._reap()
        return marked

    def step(self) -> None:
        """Check what must hold, and kill something now and then.

        Raises:
            AssertionError: It does not hold.
        """
        self._reap()
        while len(self._runs) < _JOBS:
            self._start_job()
        self._check()
        if time.monotonic() >= self._kill_at:
            self._kill()
            self._kill_at = time.monotonic() + self._random.uniform(*_PAUSES_SECONDS)
        time.sleep(_STEP_SECONDS)

    def jobs(self) -> list[Status]:
        """Return the live jobs."""
        jobs: list[Status] = self._controller.get("/v1/jobs")["jobs"]
        self._mains |= {job["id"]: job["pid"] for job in jobs if job["pid"] is not None}
        return jobs

    def _processes(self, job: Status) -> list[psutil.Process]:
        """Return the processes of a job: its main process leads a session of its own."""
        main, found = self._mains.get(job["id"]), []
        for pid in self.left() if main is not None else ():
            with suppress(OSError, psutil.Error):
                if os.getsid(pid) == main:
                    found.append(psutil.Process(pid))
        return found

    def cancel_all(self, seconds: float) -> None:
        """Cancel jobs until no process is left, but for no longer than this."""
        end = time.monotonic() + seconds
        while (self.jobs() or self.left()) and time.monotonic() < end:
            for job in self.jobs():
                self._controller.ask("POST", f"/v1/jobs/{job['id']}/cancel")
            self._reap()
            time.sleep(0.2)

    def left(self) -> list[int]:
        """Return the processes that any job has started and that still run."""
        return [int(entry.name) for entry in Path("/proc").iterdir() if self._is_marked(entry)]

    def _is_marked(self, entry: Path) -> bool:
        if not entry.name.isdigit():
            return False
        try:
            return self._mark.encode() in (entry / "environ").read_bytes()
        except OSError:
            return False

    # Starting and killing.

    def _start_controller(self) -> Controller:
        cpus = ",".join(map(str, _CPUS))
        return Controller(self._directory, "--policy", "equal", "--cpus", cpus)

    def _start_job(self) -> None:
        name, _, value = self._mark.partition("=")
        env = {**os.environ, name: value, "TF_MALLEABLE_SOCKET": str(self._controller.socket)}
        program = ["sh", "-c", _SCRIPT, sys.executable]
        # Some jobs last without their main process until their agent is killed, too.
        ends = [] if self._random.random() < _LASTING_SHARE else ["--kill-leftovers"]
        self._runs.append(
            subprocess.Popen(
                [TFM, "run", "--require-controller", "--name", "killed", *ends, "--", *program],
                env=env,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                start_new_session=True,
            )
        )

    def _reap(self) -> None:
        self._runs = [run for run in self._runs if run.poll() is None]

    def _kill(self) -> None:
        if not self._next:
            self._next = self._random.sample(KINDS, sum(_OFTEN), counts=_OFTEN)
        kind = self._next.pop()
        if kind == "controller":
            self._kill_controller()
        elif not self._kill_one_of(kind):
            return
        self.kills[kind] += 1

    def _kill_controller(self) -> None:
        jobs = self.jobs()
        self._controller.process.kill()
        self._controller.process.communicate(timeout=DEADLINE)
        mains = [job["pid"] for job in jobs if job["pid"] is not None]
        if mains and self._random.random() < 0.5:
            self._kill_marked(self._random.choice(mains))
        time.sleep(self._random.uniform(0.0, _DOWN_SECONDS))
        self._controller = self._start_controller()
        self._free_since = None
        self._outside.clear()

    def _kill_one_of(self, kind: str) -> bool:
        """Kill the main process or an agent of a random job; return whether there was one."""
        jobs = self.jobs()
        pids = [job["pid"] for job in jobs if job["pid"] is not None]
        if kind == "agent":
            pids = [
                process.pid
                for job in jobs
                for process in self._processes(job)
                if process.pid != job["pid"] and _name(process).startswith("python")
            ]
        return bool(pids) and self._kill_marked(self._random.choice(pids))

    def _kill_marked(self, pid: int) -> bool:
        if not self._is_marked(Path(f"/proc/{pid}")):
            return False  # It has ended, and its pid may be another's.
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
        return True

    # Checking.

    def _check(self) -> None:
        now = time.monotonic()
        jobs = self.jobs()
        granted = [cpu for job in jobs for cpu in job["granted"]]
        assert len(granted) == len(set(granted)), f"granted twice: {jobs}"
        assert set(granted) <= set(_CPUS)
        self._check_lost(set(_CPUS) - set(granted), jobs, now)
        if now >= self._look_at:
            self._look_at = now + _LOOK_SECONDS
            self._check_confined(jobs, now)

    def _check_lost(self, free: set[int], jobs: list[Status], now: float) -> None:
        waiting = [job for job in jobs if job["state"] == "waiting" and not job["lacks"]]
        if not free or not any(map(self._could_start, waiting)):
            self._free_since = None
            return
        if self._free_since is None:
            self._free_since = now
        lost = now - self._free_since
        assert lost <= _LOST_SECONDS, f"CPUs {free} are free for {lost:.2f} s: {jobs}"

    def _could_start(self, job: Status) -> bool:
        """Return whether a job waits, and its process is connected to start it.

        One that lost its controller asks for the next one in pauses of up to 2 seconds.
        """
        status, outlook = self._controller.ask("GET", f"/v1/jobs/{job['id']}/outlook")
        reason = outlook["reason"] if status == 200 else None
        return reason is not None and "no longer waits" not in reason

    def _check_confined(self, jobs: list[Status], now: float) -> None:
        """Check in the kernel that jobs keep to the grants that they have acknowledged."""
        outside = {}
        for job in jobs:
            granted = job["granted"]
            if job["state"] == "running" and granted and job["actual"] == granted:
                key = (job["id"], tuple(granted))
                if any(not cpus <= set(granted) for cpus in _affinities(self._processes(job))):
                    outside[key] = self._outside.get(key, now)
        self._outside = outside
        late = [key for key, since in outside.items() if now - since > _UNCONFINED_SECONDS]
        assert not late, f"run on more CPUs than acknowledged: {late}"


def _name(process: psutil.Process) -> str:
    try:
        return process.name()
    except psutil.Error:
        return ""


def _affinities(processes: list[psutil.Process]) -> Iterator[set[int]]:
    """Yield the CPUs of each thread of these processes."""
    for process in processes:
        with suppress(OSError):
            for thread in os.listdir(f"/proc/{process.pid}/task"):
                with suppress(ProcessLookupError):
                    yield os.sched_getaffinity(int(thread))
