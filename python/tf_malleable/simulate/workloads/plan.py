# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Reader of workload files to simulate: those of `tfm workload`, with the work of each job.

Each line is a job: its arrival time in seconds, the arguments of `tfm run`, and options for
the amount and the course of its work. A service has --requests RATE:SECONDS, the seconds being the
work of a request, and --slo; its --work is the time for which it serves.

    # seconds  options                                                        command
    0          --name cnn --max 2 --work 600 --curve amdahl:0.1               -- python cnn.py
    2.5        --min 2 --work 90 --busy 20 --idle 5 --user eva --expected 2m  -- python big.py
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click

from tf_malleable.api.schema.job_names import default_name
from tf_malleable.api.schema.job_request import MOST_CORES, JobRequest
from tf_malleable.model.services.slo import parse_slo
from tf_malleable.model.units import quoted
from tf_malleable.simulate.engine.curves import Speedup, parse_curve
from tf_malleable.simulate.engine.request_queue import Bursts, RequestStream
from tf_malleable.simulate.engine.task import Task
from tf_malleable.simulate.engine.workload import Assumed, Workload
from tf_malleable.simulate.workloads.assumptions import about_curve, about_phases, about_steps
from tf_malleable.workload.lines import line_command, parsed, read_jobs
from tf_malleable.workload.options import Duration

_IGNORED = "memory and GPUs that jobs ask for are always free"


def read_plan(path: Path, assumed: Assumed) -> Workload:
    """Return the jobs of a file. Values of a line take precedence over assumptions.

    A job without --max can use all cores.

    Raises:
        ValueError: The file cannot be read, has an invalid line, has jobs that are not in order
            of arrival, or has none.
    """
    lines = _Lines(assumed)
    tasks = read_jobs(path, lines.parse)
    return Workload(path.stem, tuple(tasks), assumed=tuple(lines.said))


class _Lines:
    def __init__(self, assumed: Assumed) -> None:
        self._assumed = assumed
        self._last = 0.0
        # A dictionary serves as an ordered set.
        self.said: dict[str, None] = {}

    def parse(self, at: float, words: list[str]) -> Task:
        line: _Said = parsed(_line, words)
        if at < self._last:
            raise ValueError(
                "jobs must be in order of arrival, but"
                f" {at:.15g} comes after {self._last:.15g} seconds"
            )
        task = self._task(at, line)
        self._last = at
        return task

    def _task(self, at: float, line: _Said) -> Task:
        assumed, request = self._assumed, line.request
        curve, starting, steps = line.curve, line.starting, line.steps
        if curve is None:
            curve = assumed.curve
            self._assume(f"where a line does not say it, {about_curve(assumed)}")
        if starting is None:
            starting = assumed.starting
            self._assume(f"where a line does not say it, {about_phases(assumed)[0]}")
        if steps is None and not line.no_steps and line.requests is None:
            steps = assumed.steps
            self._assume(f"where a line does not say it, {about_steps(assumed)}")
        if request.mem is not None or request.gpus:
            self._assume(_IGNORED)
        return Task(
            request.name,
            at,
            line.work,
            curve,
            request.shape(MOST_CORES),
            request.command,
            line.user,
            request.priority,
            request.weight,
            request.expected,
            line.queue,
            steps,
            starting=starting,
            ending=line.ending,
            busy=line.busy,
            idle=line.idle,
            fails_at=line.fails_at,
            requests=line.requests,
            slo=None if request.slo is None else parse_slo(request.slo),
        )

    def _assume(self, sentence: str) -> None:
        self.said[sentence] = None


@dataclass(frozen=True)
class _Said:
    """Values of a line.

    Raises:
        ValueError: Options contradict each other, or a value is out of range.
    """

    request: JobRequest
    queue: bool
    work: float
    curve: Speedup | None
    starting: float | None
    steps: float | None
    no_steps: bool
    user: str
    ending: float = 0.0
    busy: float = math.inf
    idle: float = 0.0
    fails_at: float | None = None
    requests: RequestStream | None = None

    def __post_init__(self) -> None:
        if (self.busy < math.inf) != (self.idle > 0):
            raise ValueError(
                "--busy and --idle must be given together, and above 0: seconds of work between"
                " two waits for input, and seconds of each"
            )
        if self.requests is None and self.request.slo is not None:
            raise ValueError("--slo is the objective of a service: give --requests, too")
        if self.steps is not None and self.no_steps:
            raise ValueError("--steps and --no-steps exclude each other: give only one of them")
        if self.steps is not None and not (self.steps >= 1 and math.isfinite(self.steps)):
            raise ValueError(f"--steps must be a finite number of at least 1, not {self.steps:g}")
        if not self.user:
            raise ValueError("--user must not be empty")


def _curve(context: click.Context, parameter: click.Parameter, value: str | None) -> Speedup | None:
    if value is None:
        return None
    try:
        return parse_curve(value)
    except ValueError as error:
        raise click.BadParameter(str(error)) from None


def _requests(
    context: click.Context, parameter: click.Parameter, value: str | None
) -> RequestStream | None:
    if value is None:
        return None
    words = value.split(":")
    try:
        numbers = [float(word) for word in words]
        if len(numbers) not in (2, 5):
            raise ValueError(f"there are {len(numbers)} numbers")
        bursts = Bursts(*numbers[2:]) if numbers[2:] else None
        return RequestStream(numbers[0], numbers[1], bursts)
    except ValueError as error:
        raise click.BadParameter(
            "must be RATE:SECONDS, or RATE:SECONDS:FACTOR:SECONDS:EVERY with bursts,"
            f" not {quoted(value)}: {error}"
        ) from None


@line_command
@click.option("--slo")
@click.option("--requests", callback=_requests)
@click.option("--work", type=float, required=True)
@click.option("--curve", callback=_curve)
@click.option("--starting", type=float)
@click.option("--ending", type=float, default=0.0)
@click.option("--idle", type=float, default=0.0)
@click.option("--busy", type=float, default=math.inf)
@click.option("--fails-at", type=float)
@click.option("--steps", type=float)
@click.option("--no-steps", is_flag=True)
@click.option("--user", default="user")
@click.option("--expected", type=Duration())
def _line(
    asked: dict[str, Any],
    gpus: int,
    name: str | None,
    queue: bool,
    command: tuple[str, ...],
    expected: float | None,
    slo: str | None,
    **said: Any,  # noqa: ANN401 - as the options
) -> _Said:
    name = name or default_name(command)
    request = JobRequest(name=name, command=command, gpus=gpus, expected=expected, slo=slo, **asked)
    return _Said(request, queue, **said)
