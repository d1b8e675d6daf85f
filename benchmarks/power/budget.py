# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Measures whether a budget is kept while real trainings run, and how much work is done."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass
from itertools import pairwise
from pathlib import Path

from benchmarks.power.auditor import Auditor, windows
from benchmarks.power.servers import SERVERS, Server
from tf_malleable.api.power import PowerStatus
from tf_malleable.linux.host_cpu import HostCpu
from tf_malleable.model.power import lower_hull
from tf_malleable.power.curve_file import write_curve
from tf_malleable.scheduling.calibration import fit
from tf_malleable.workload.private_controller import PrivateController, private_controller

# As `tfm power calibrate` measures by default; the auditor knows all eleven points.
CALIBRATED = (0, 1, 4, 7, 10)
TFM = (sys.executable, "-m", "tf_malleable_cli")
TRAINING = Path(__file__).parents[2] / "examples" / "trainings" / "dense.py"


@dataclass(frozen=True)
class Kept:
    """What was found.

    Attributes:
        server: The server whose curve was played.
        watts: The budget.
        window: Of the mean, in seconds.
        windows: Number of windows that were audited.
        within: Share of these that had at most 2 % more than the budget.
        highest: The mean watts of the worst one.
        mean: Mean watts of the whole time.
        load: Mean load of the host in that time.
        hull: Load at which the hull of the server's curve has the budget.
        steps: Steps a second, by those without a budget at full load.
        work: Steps a second, by those of the hull's load.
        pauses: How often jobs were paused.
    """

    server: str
    watts: float
    window: float
    windows: int
    within: float
    highest: float
    mean: float
    load: float
    hull: float
    steps: float
    work: float
    pauses: int


def hull_load(server: Server, watts: float) -> float:
    """Return the highest mean load that is possible with these watts on average."""
    for (x0, y0), (x1, y1) in pairwise(lower_hull(server.curve.points)):
        if y0 <= watts <= y1:
            return x0 + (x1 - x0) * (watts - y0) / (y1 - y0)
    return 1.0


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


def _steps(started: PrivateController) -> float:
    return sum(job.steps_done or 0.0 for job in started.client.jobs())


def _rate(started: PrivateController, seconds: float) -> float:
    begin, before = time.monotonic(), _steps(started)
    time.sleep(seconds)
    return (_steps(started) - before) / (time.monotonic() - begin)


def measure(
    server: Server, share: float, window: float, length: float, baseline: float, number: int
) -> Kept:
    """Return what comes of a mean budget.

    Args:
        server: The server to play.
        share: The budget, from idle (0) to full power (1).
        window: Of the mean, in seconds.
        length: How long to audit, in seconds.
        baseline: How long to run without a budget before.
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
        begin = len(auditor.samples)
        full = _rate(started, baseline)
        load = _load(auditor, begin)
        body = {"area": "lab", "watts": watts, "window": window}
        found = started.client.ask("PUT", "/v1/power/budget", PowerStatus, body)
        assert found.budget is not None
        time.sleep(5)
        begin, pauses = len(auditor.samples), _pauses(started)
        rate = _rate(started, length)
        audited = auditor.samples[begin:]
        pauses = _pauses(started) - pauses
    means = windows(audited, window)
    hull = hull_load(server, watts)
    passed = audited[-1][0] - audited[0][0]
    relative = rate / (full / load)
    return Kept(
        server.name,
        watts,
        window,
        len(means),
        sum(mean <= watts * 1.02 for mean in means) / len(means),
        max(means),
        (audited[-1][1] - audited[0][1]) / passed,
        (audited[-1][2] - audited[0][2]) / passed / HostCpu().cpus,
        hull,
        rate / full,
        relative / hull,
        pauses,
    )


def _load(auditor: Auditor, begin: int) -> float:
    first, last = auditor.samples[begin], auditor.samples[-1]
    return (last[2] - first[2]) / (last[0] - first[0]) / HostCpu().cpus


def _pauses(started: PrivateController) -> int:
    return sum(job.resizes for job in started.client.jobs())


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure and print as JSON."""
    import argparse

    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--server", type=int, default=4, help="number of the server in servers.py")
    parser.add_argument("--share", type=float, default=0.5, help="budget between idle and full")
    parser.add_argument("--window", type=float, default=60)
    parser.add_argument("--length", type=float, default=240)
    parser.add_argument("--baseline", type=float, default=20)
    parser.add_argument("--jobs", type=int, default=2)
    said = parser.parse_args(arguments)
    found = measure(
        SERVERS[said.server], said.share, said.window, said.length, said.baseline, said.jobs
    )
    print(json.dumps(asdict(found), indent=2))


if __name__ == "__main__":
    main()
