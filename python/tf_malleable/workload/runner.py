# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Runner of a workload: starts and measures its jobs, and leaves no process behind."""

from __future__ import annotations

import os
import pwd
import re
import select
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter, deque
from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal

from tf_malleable.api.schema.history import History
from tf_malleable.api.schema.messages import JobStatus
from tf_malleable.api.transport.client import Client
from tf_malleable.linux.processes import procfs, signals
from tf_malleable.model import OperationError, ProcessId
from tf_malleable.workload.interrupts import delay_signals
from tf_malleable.workload.metrics import Finished, from_history, from_outside
from tf_malleable.workload.plan import PlannedJob

_TICK_SECONDS = 1.0
# Time between SIGTERM and SIGKILL when the workload is interrupted.
_GRACE_SECONDS = 5.0
_POLL_SECONDS = 0.01
# Time without an answer of the controller, as during its restart, in which jobs are not over.
_PATIENCE_SECONDS = 5.0
# Time in which the controller normally learns that a program has ended.
_NOTICE_SECONDS = 0.5

TFM: Final = (sys.executable, str(Path(__file__).parents[2] / "tf_malleable_cli"))
"""Command that runs `tfm`: the package next to this one, which Python runs as a directory."""


@dataclass(frozen=True)
class Event:
    """A progress event of a workload.

    Attributes:
        seconds: Time since the workload's start, in seconds.
        kind: A job arrived, or a job ended; `tick`: nothing happened for up to a second.
        job: The job; None for a tick.
        exit_code: Exit code as in a shell, if a job ended.
    """

    seconds: float
    kind: Literal["arrived", "ended", "tick"]
    job: PlannedJob | None = None
    exit_code: int | None = None


@dataclass(frozen=True)
class Start:
    """Command and environment of a job.

    Attributes:
        command: Program and arguments.
        environment: Complete environment; None for that of this process.
    """

    command: Sequence[str]
    environment: Mapping[str, str] | None = None


Launch = Callable[[PlannedJob, int, Path], Start]
"""Returns how to start a job, given its slot (0 without slots) and the file for its id."""


@dataclass(frozen=True)
class _Running:
    job: PlannedJob
    process: subprocess.Popen[bytes]
    submitted: float
    id_file: Path
    log: Path
    slot: int


def run_workload(
    jobs: Sequence[PlannedJob],
    *,
    out: Path,
    controller: Client | None,
    watch: Callable[[Event], None] = lambda event: None,
) -> History:
    """Start each job at its arrival time and wait until all have ended.

    A job of the controller has ended when all its processes have, as the controller says.

    Args:
        jobs: The jobs to run.
        out: Directory for the output: NAME.log, NAME-2.log and so on; created if missing.
        controller: The controller that shares out the cores; None starts the jobs without
            one, as plain TensorFlow would run.
        watch: Called for each event.

    Returns:
        The metrics of the jobs, one by one and together: from the controller's history,
        or measured from outside without a controller.

    Raises:
        OperationError: The controller does not answer, or its history lacks a job.
        OSError: A file cannot be written or a program cannot be started.
        KeyboardInterrupt: On Ctrl-C, after all jobs have been ended.
    """
    if controller is None:
        cpus = sorted(os.sched_getaffinity(0))
    else:
        cpus = [cpu.id for cpu in controller.info().cpus]
    finished = run_jobs(jobs, out=out, controller=controller, watch=watch)
    if controller is None:
        return from_outside(finished, cpus)
    return from_history(finished, controller, cpus)


def run_jobs(
    jobs: Sequence[PlannedJob],
    *,
    out: Path,
    controller: Client | None,
    watch: Callable[[Event], None] = lambda event: None,
    launch: Launch | None = None,
    slots: int | None = None,
) -> list[Finished]:
    """Start each job and wait for all, as :func:`run_workload` does.

    Args:
        jobs: Jobs to run.
        out: Directory for their output.
        controller: Controller that is asked to cancel the jobs if this is interrupted.
        watch: Called for each event.
        launch: Returns the start of a job; by default with `tfm run` if there is a
            controller, else the plain command.
        slots: Number of jobs that run at a time while the others wait; None for all.

    Returns:
        The jobs in order of their ends.

    Raises:
        OSError: A file cannot be written or a program cannot be started.
        KeyboardInterrupt: On Ctrl-C, after all jobs have been ended.
    """
    out.mkdir(parents=True, exist_ok=True)

    def start(job: PlannedJob, slot: int, id_file: Path) -> Start:
        return _usual_start(job, controller, id_file)

    with tempfile.TemporaryDirectory(prefix="tfm-workload-") as folder:
        runner = _Runner(out, Path(folder), controller, watch, launch or start, slots)
        return runner.run(jobs)


def _usual_start(job: PlannedJob, controller: Client | None, id_file: Path) -> Start:
    if controller is None:
        # For a missing program, env ends with the same exit code as `tfm run`: 127.
        return Start(["env", "--", *job.request.command])
    options = (f"--socket={controller.socket}", f"--id-file={id_file}")
    return Start([*TFM, "run", *options, *job.arguments])


class _Runner:
    """Starts jobs and waits for them. Used once."""

    def __init__(
        self,
        out: Path,
        ids: Path,
        controller: Client | None,
        watch: Callable[[Event], None],
        launch: Launch,
        slots: int | None,
    ) -> None:
        self._launch = launch
        self._free = None if slots is None else deque(range(slots))
        self._out = out
        self._ids = ids
        self._controller = controller
        self._watch = watch
        self._names: Counter[str] = Counter()
        self._running: dict[int, _Running] = {}
        # Jobs whose program has ended, with their slots; other processes of theirs may go on.
        self._ending: list[tuple[Finished, int]] = []
        # When the controller first did not answer; None if it does.
        self._silent_since: float | None = None
        self._poll = select.poll()
        self._begin = time.monotonic()

    def run(self, jobs: Sequence[PlannedJob]) -> list[Finished]:
        """Run all jobs; return them in the order they ended."""
        waiting = deque(sorted(jobs, key=lambda job: job.at))
        finished: list[Finished] = []
        self._begin = time.monotonic()
        try:
            while waiting or self._running or self._ending:
                while waiting and waiting[0].at <= self._now() and self._has_slot:
                    self._start(waiting.popleft())
                finished += self._wait(waiting[0].at if waiting else None)
        except BaseException:
            self._end_all()
            raise
        return finished

    @property
    def _has_slot(self) -> bool:
        return self._free is None or bool(self._free)

    def _now(self) -> float:
        return time.monotonic() - self._begin

    def _start(self, job: PlannedJob) -> None:
        self._names[job.request.name] += 1
        count = self._names[job.request.name]
        # A job's name may have characters that are not allowed in a file name.
        name = re.sub(r"[^\w.+-]", "_", job.request.name).lstrip(".") or "job"
        log = self._out / (f"{name}.log" if count == 1 else f"{name}-{count}.log")
        id_file = self._ids / str(sum(self._names.values()))
        slot = 0 if self._free is None else self._free.popleft()
        start = self._launch(job, slot, id_file)
        # Taken before the start, otherwise the job would seem faster than it is.
        submitted = time.time()
        # A signal before the child is registered would leave it behind.
        with log.open("wb") as output, delay_signals():
            process = subprocess.Popen(
                start.command,
                env=start.environment,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                # Ctrl-C goes to this process only, which ends each job as one process group.
                start_new_session=True,
            )
            try:
                pidfd = os.pidfd_open(process.pid)
            except BaseException:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()
                raise
            self._running[pidfd] = _Running(job, process, submitted, id_file, log, slot)
        self._poll.register(pidfd, select.POLLIN)
        self._watch(Event(self._now(), "arrived", job))

    def _wait(self, next_arrival: float | None) -> list[Finished]:
        """Wait until jobs end or the next one arrives, at most one second."""
        seconds = _TICK_SECONDS
        if next_arrival is not None and self._has_slot:
            seconds = min(seconds, max(0.0, next_arrival - self._now()))
        ready = self._poll.poll(seconds * 1000)
        self._ending += [self._reap(pidfd) for pidfd, _ in ready]
        lasting = self._lasting() if self._ending else frozenset()
        ended = [each for each in self._ending if each[0].id not in lasting]
        self._ending = [each for each in self._ending if each[0].id in lasting]
        for finished, slot in ended:
            if self._free is not None:
                self._free.append(slot)
            self._watch(Event(self._now(), "ended", finished.job, finished.exit_code))
        if not ready:
            self._watch(Event(self._now(), "tick"))
        return [finished for finished, _ in ended]

    def _lasting(self) -> Set[str | None]:
        """Return the ids of jobs whose program has ended, but not all their processes."""
        ids = {finished.id for finished, _ in self._ending} - {None}
        if self._controller is None or not ids:
            return frozenset()
        begin = time.monotonic()
        while True:
            try:
                live = [job for job in self._controller.jobs() if job.id in ids]
            except OperationError:
                self._silent_since = self._silent_since or begin
                is_gone = begin - self._silent_since > _PATIENCE_SECONDS
                return frozenset() if is_gone else ids
            self._silent_since = None
            is_known = all(job.main_ended is not None for job in live)
            if is_known or time.monotonic() - begin > _NOTICE_SECONDS:
                return {job.id for job in live}
            time.sleep(_POLL_SECONDS)

    def _reap(self, pidfd: int) -> tuple[Finished, int]:
        running = self._running.pop(pidfd)
        ended = time.time()
        self._poll.unregister(pidfd)
        os.close(pidfd)
        _, status, usage = os.wait4(running.process.pid, 0)
        code = running.process.returncode = os.waitstatus_to_exitcode(status)
        exit_code = code if code >= 0 else 128 - code
        finished = Finished(
            job=running.job,
            id=_id(running),
            user=_user(),
            submitted=running.submitted,
            ended=ended,
            exit_code=exit_code,
            cpu_seconds=usage.ru_utime + usage.ru_stime,
            log=running.log,
        )
        return finished, running.slot

    def _end_all(self) -> None:
        """End all jobs, including stopped ones; return when they are gone."""
        # Children are reaped only after all are gone, so that no pid is reused.
        roots = [running.process.pid for running in self._running.values()]
        victims = [
            process
            for tree in procfs.trees(roots).values()
            for pid in tree
            if (process := procfs.identify(pid)) is not None
        ]
        with suppress(KeyboardInterrupt, SystemExit):  # A second Ctrl-C skips the grace.
            self._cancel_all()
            _send(roots, victims, signal.SIGTERM)
            _send(roots, victims, signal.SIGCONT)
            _wait_for_end(victims, _GRACE_SECONDS)
        _send(roots, victims, signal.SIGKILL)
        _wait_for_end(victims, _GRACE_SECONDS)
        for pidfd, running in self._running.items():
            os.close(pidfd)
            running.process.wait()

    def _cancel_all(self) -> None:
        """Cancel all jobs, so that the controller's history records them as cancelled."""
        if self._controller is None:
            return
        running = self._running.values()
        ids = {_id(each) for each in running} | {finished.id for finished, _ in self._ending}
        # By pid too: a job that has just been submitted may not have written its id yet.
        pids = {each.process.pid for each in running}
        with suppress(OperationError, ValueError):
            live = [job for job in self._controller.jobs() if job.id in ids or job.pid in pids]
            # First programs that are not jobs yet, then jobs without cores: they would start on
            # the cores of the others.
            known = {job.id for job in live} | {job.pid for job in live} - {None}
            strangers = [each for each in running if not {_id(each), each.process.pid} & known]
            _send([each.process.pid for each in strangers], (), signal.SIGTERM)
            for job in sorted(live, key=lambda job: job.state == "running"):
                with suppress(OperationError, ValueError):
                    self._controller.ask("POST", f"/v1/jobs/{job.id}/cancel", JobStatus)


def _send(roots: Iterable[int], victims: Iterable[ProcessId], number: signal.Signals) -> None:
    """Send a signal to processes, and to the process groups of `roots`."""
    signals.send(victims, number)
    for root in roots:
        with suppress(ProcessLookupError):
            os.killpg(root, number)


def _wait_for_end(victims: Iterable[ProcessId], seconds: float) -> None:
    deadline = time.monotonic() + seconds
    while any(map(procfs.is_alive, victims)) and time.monotonic() < deadline:
        time.sleep(_POLL_SECONDS)


def _id(running: _Running) -> str | None:
    """Return the job's id; None if no controller accepted it."""
    with suppress(FileNotFoundError):
        return running.id_file.read_text().strip() or None
    return None


def _user() -> str:
    try:
        return pwd.getpwuid(os.getuid()).pw_name
    except KeyError:
        return str(os.getuid())
