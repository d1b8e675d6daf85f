# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""What is measured: real jobs under a real controller, with weights and without."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

import psutil

import tf_malleable
from benchmarks.common.children import REPOSITORY
from benchmarks.common.command_line import BenchmarkError
from benchmarks.common.configurations import environment
from tf_malleable.workload.private_controller import PrivateController, private_controller
from tf_malleable.workload.runner import TFM

CPUS: Final = 2
OTHERS: Final = 10
_NAP_SECONDS: Final = 2.0
_OWNER: Final = Path(__file__).with_name("owner.py")
_BUSY: Final = "while True: pass"
_TRAIN: Final = REPOSITORY / "benchmarks" / "service" / "train.py"
_CROWD: Final = f"import os\nfor _ in range(8):\n    if not os.fork(): break\n{_BUSY}"
_PATIENCE_SECONDS: Final = 60.0
# From the first step to a settled load of the host.
_SETTLED_SECONDS: Final = 3.0


@contextmanager
def controller(way: str) -> Iterator[PrivateController]:
    """Run a controller of two CPUs for a while, with --cpu-weights or without."""
    cpus = ",".join(map(str, sorted(os.sched_getaffinity(0))[:CPUS]))
    options = (f"--cpus={cpus}", f"--cpu-weights={way}")
    with private_controller(*options, environment=_environment()) as started:
        yield started


@contextmanager
def program(
    command: Sequence[str], said: Mapping[str, str] | None = None
) -> Iterator[subprocess.Popen[str]]:
    """Run a program in a session of its own for a while; its descendants end with it."""
    process = subprocess.Popen(
        command,
        cwd=REPOSITORY,
        env=None if said is None else {**said},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    try:
        yield process
    finally:
        running = psutil.Process(process.pid).children(recursive=True)
        for each in (process, *running):
            each.kill()
        process.communicate()


def naps(way: str, count: int) -> list[list[float]]:
    """Return, of each nap, the milliseconds to the wake-up and of 30 ms of CPU time after it.

    The owner sleeps two seconds each time, beside a borrower with nine busy processes.
    """
    with ExitStack() as stack:
        here = stack.enter_context(controller(way))
        begin = Path(stack.enter_context(TemporaryDirectory()), "begin")
        said = _environment(here.client.socket)
        job = [*TFM, "run", "--min", str(CPUS), "--name"]
        asked = [str(begin), str(count), str(_NAP_SECONDS)]
        owner = program([*job, "owner", "--", sys.executable, str(_OWNER), *asked], said)
        napping = stack.enter_context(owner)
        _until(here, lambda jobs: "owner" in jobs)
        stack.enter_context(program([*job, "borrower", "--", sys.executable, "-c", _CROWD], said))
        _until(here, lambda jobs: jobs.get("owner") == 0 and jobs.get("borrower") == CPUS)
        time.sleep(_SETTLED_SECONDS)
        begin.touch()
        assert napping.stdout is not None
        found = [json.loads(line) for line in napping.stdout]
    if len(found) != count:
        raise BenchmarkError(f"the owner has napped {len(found)} times, not {count}")
    return found


def outside(way: str, seconds: float) -> list[float]:
    """Return the share of its core that a job of one thread has beside ten busy sessions."""
    with ExitStack() as stack:
        here = stack.enter_context(controller(way))
        said = _environment(here.client.socket)
        for _ in range(OTHERS):
            stack.enter_context(program([sys.executable, "-c", _BUSY]))
        job = [*TFM, "run", "--max", "1", "--name", "job", "--", sys.executable, "-c", _BUSY]
        busy = psutil.Process(stack.enter_context(program(job, said)).pid)
        _until(here, lambda jobs: jobs.get("job") == 1)
        time.sleep(_SETTLED_SECONDS)
        begin, used = time.monotonic(), busy.cpu_times().user
        time.sleep(seconds)
        return [(busy.cpu_times().user - used) / (time.monotonic() - begin)]


def throughput(way: str, seconds: float) -> list[float]:
    """Return the steps a second of two trainings together that have the CPUs to themselves."""
    with ExitStack() as stack:
        here = stack.enter_context(controller(way))
        said = _environment(here.client.socket)
        for _ in range(2):
            stack.enter_context(program([*TFM, "run", "--", sys.executable, str(_TRAIN)], said))

        def steps() -> list[float]:
            return [job.steps_done or 0.0 for job in here.client.jobs()]

        while not (len(steps()) == 2 and all(steps())):
            time.sleep(0.1)
        time.sleep(_SETTLED_SECONDS)
        begin, done = time.monotonic(), sum(steps())
        time.sleep(seconds)
        return [(sum(steps()) - done) / (time.monotonic() - begin)]


def _environment(socket: Path | None = None) -> dict[str, str]:
    """Return a clean environment, in which the package is the one that this process has."""
    package = str(Path(tf_malleable.__file__).parents[1])
    return {**environment(socket=socket), "PYTHONPATH": package}


def _until(here: PrivateController, condition: Callable[[dict[str, int]], bool]) -> None:
    """Wait for the granted cores of the jobs, by name."""
    deadline = time.monotonic() + _PATIENCE_SECONDS
    while not condition({job.name: len(job.granted) for job in here.client.jobs()}):
        if time.monotonic() > deadline:
            raise BenchmarkError("the jobs do not lend and borrow as expected")
        time.sleep(0.1)
