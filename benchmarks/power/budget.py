# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Measures whether a budget is kept while real trainings run, and how much work is done."""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import psutil

from benchmarks.power.auditor import Auditor, windows
from benchmarks.power.servers import CALIBRATED, Server
from tf_malleable.api.schema.power import PowerStatus
from tf_malleable.linux.host_cpu import HostCpu
from tf_malleable.model.power import lower_hull
from tf_malleable.power.curve_file import write_curve
from tf_malleable.scheduling.energy.calibration import fit
from tf_malleable.workload.private_controller import PrivateController, private_controller

TFM = (sys.executable, "-m", "tf_malleable_cli")
TRAINING = Path(__file__).parents[2] / "examples" / "trainings" / "dense.py"


@dataclass(frozen=True)
class Kept:
    """What was found.

    Attributes:
        server: The server whose curve was played.
        watts: The budget.
        window: Window of the mean, in seconds.
        windows: Number of windows that were audited.
        within: Share of these that had at most 2 % more than the budget.
        highest: The mean watts of the worst one.
        mean: Mean watts of the whole time.
        beside: Mean CPUs that were kept busy by what is no job.
        hull: CPUs that jobs could keep busy, on average, on the hull of the server's curve.
        cores: CPUs that jobs kept busy.
        work: Steps a second, by those that these would have done at the speed without a budget.
        speeds: Steps in a second of CPU time without a budget, before and after.
        paused: Share of the time in which jobs were paused.
    """

    server: str
    watts: float
    window: float
    windows: int
    within: float
    highest: float
    mean: float
    beside: float
    hull: float
    cores: float
    work: float
    speeds: tuple[float, ...]
    paused: float


def hull_cores(server: Server, watts: float, beside: float) -> float:
    """Return the most CPUs that jobs can keep busy with these watts on average.

    Args:
        server: The server.
        watts: The budget.
        beside: CPUs that what is no job keeps busy.
    """
    cpus = HostCpu().cpus
    levels = [(k, server.curve.watts((k + beside) / cpus)) for k in range(cpus + 1)]
    for (x0, y0), (x1, y1) in pairwise(lower_hull(levels)):
        if y0 <= watts <= y1:
            return x0 + (x1 - x0) * (watts - y0) / (y1 - y0)
    return float(cpus)


@dataclass(frozen=True)
class _State:
    """How far trainings are: time, steps, CPU time, and time paused, of all together."""

    at: float
    steps: float
    cpu: float
    paused: float

    @classmethod
    def now(cls, started: PrivateController) -> _State:
        jobs = started.client.jobs()
        cpu = 0.0
        for job in jobs:
            assert job.pid is not None
            times = psutil.Process(job.pid).cpu_times()
            cpu += times.user + times.system
        return cls(
            time.monotonic(),
            sum(job.steps_done or 0.0 for job in jobs),
            cpu,
            sum(job.paused_seconds for job in jobs) / len(jobs),
        )


@contextmanager
def trainings(started: PrivateController, number: int) -> Iterator[None]:
    """Run trainings that share the host until the end of the with statement."""
    command = [*TFM, "run", f"--socket={started.client.socket}"]
    training = [sys.executable, str(TRAINING), "--steps=10000000", "--size=512"]
    with ExitStack() as stack:
        for index in range(number):
            process = subprocess.Popen(
                [*command, f"--name=job-{index}", "--", *training],
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
            )
            stack.callback(process.wait)
            stack.callback(process.kill)
        while sum(bool(job.steps_done) for job in started.client.jobs()) < number:
            time.sleep(0.5)
        time.sleep(5)
        yield


def _set_budget(started: PrivateController, watts: float, window: float) -> None:
    body = {"area": "lab", "watts": watts, "window": window}
    found = started.client.ask("PUT", "/v1/power/budget", PowerStatus, body)
    assert found.budget is not None


def _speed(started: PrivateController, seconds: float) -> float:
    """Return the steps of all trainings in a second of CPU time."""
    begin = _State.now(started)
    time.sleep(seconds)
    end = _State.now(started)
    return (end.steps - begin.steps) / (end.cpu - begin.cpu)


def measure(
    server: Server, share: float, window: float, length: float, baseline: float, number: int
) -> Kept:
    """Return what comes of a mean budget.

    Args:
        server: The server to play.
        share: The budget, from idle (0) to full power (1).
        window: Window of the mean, in seconds.
        length: How long to audit, in seconds.
        baseline: How long to run without a budget that binds, before and after.
        number: Number of trainings.
    """
    watts = round(server.curve.idle + share * (server.curve.full - server.curve.idle), 1)
    with tempfile.TemporaryDirectory(prefix="tfm-power-") as folder, ExitStack() as stack:
        auditor = stack.enter_context(Auditor(server, Path(folder, "powercap")))
        curve = Path(folder, "curve.json")
        write_curve(curve, fit((step / 10, server.watts[step]) for step in CALIBRATED), "")
        started = stack.enter_context(
            private_controller(
                "--policy=equal",
                "--area=lab",
                f"--meter=replay:{auditor.root}",
                f"--power-curve={curve}",
            )
        )
        stack.enter_context(trainings(started, number))
        # Before and after: over minutes, the same core is not always as fast.
        speeds = [_speed(started, baseline)]
        _set_budget(started, watts, window)
        time.sleep(5)
        first, begin = len(auditor.samples), _State.now(started)
        time.sleep(length)
        end, audited = _State.now(started), auditor.samples[first:]
        _set_budget(started, 2 * server.curve.full, window)
        time.sleep(5)
        speeds.append(_speed(started, baseline))
        speed = sum(speeds) / len(speeds)
    means = windows(audited, window)
    passed = audited[-1][0] - audited[0][0]
    cores = (end.cpu - begin.cpu) / (end.at - begin.at)
    beside = (audited[-1][2] - audited[0][2]) / passed - cores
    hull = hull_cores(server, watts, beside)
    return Kept(
        server.name,
        watts,
        window,
        len(means),
        sum(mean <= watts * 1.02 for mean in means) / len(means),
        max(means),
        (audited[-1][1] - audited[0][1]) / passed,
        beside,
        hull,
        cores,
        (end.steps - begin.steps) / (end.at - begin.at) / (speed * hull),
        tuple(speeds),
        (end.paused - begin.paused) / (end.at - begin.at),
    )
