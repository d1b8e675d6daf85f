# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Reader of workload files, which list jobs and their arrival times.

Each line is a job: its arrival time in seconds, then the arguments of `tfm run`. There is
no other syntax to learn, a line can be tried out in a shell, and options, checks and
help share the same code. (TOML or CSV would need a second spelling of every option, a
library on Python 3.10, and rules for splitting a command into words; here they are those of
the shell.)

    # seconds  options                          command
    0          --name cnn --max 2               -- python cnn.py --epochs 3
    2.5        --min 2 --priority 10            -- python big.py
    2.5        python small.py "with spaces"
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tf_malleable.api.schema.job_names import default_name
from tf_malleable.api.schema.job_request import ASKED, JobRequest
from tf_malleable.workload.lines import line_command, parsed, read_jobs


@dataclass(frozen=True)
class PlannedJob:
    """A job and its arrival time.

    Attributes:
        at: Arrival in seconds after the workload's start.
        request: The job's request, with the whole command.
        queue: Whether the job waits if too few cores are free; otherwise it is refused.

    Raises:
        ValueError: An attribute is invalid.
    """

    at: float
    request: JobRequest
    queue: bool = True

    def __post_init__(self) -> None:
        if not math.isfinite(self.at) or self.at < 0:
            raise ValueError(
                f"an arrival must be a finite number of seconds, at least 0, not {self.at}"
            )
        if not self.request.command:
            raise ValueError("there is no command")

    @property
    def arguments(self) -> list[str]:
        """The arguments of `tfm run` that start it."""
        said = self.request.said()
        return [
            *(f"--{name}={said[name]}" for name in ("name", *ASKED, "gpus") if name in said),
            "--queue" if self.queue else "--no-queue",
            "--",
            *self.request.command,
        ]


def read_workload(path: Path) -> list[PlannedJob]:
    """Return the jobs of a workload file, in order of arrival.

    Raises:
        ValueError: The file cannot be read, has an invalid line, or has no jobs.
    """
    jobs = read_jobs(path, _parse)
    return sorted(jobs, key=lambda job: job.at)


@line_command
def _line(
    asked: dict[str, Any], gpus: int, name: str | None, queue: bool, command: tuple[str, ...]
) -> tuple[JobRequest, bool]:
    name = name or default_name(command)
    return JobRequest(name=name, command=command, gpus=gpus, **asked), queue


def _parse(at: float, words: list[str]) -> PlannedJob:
    request, queue = parsed(_line, words)
    return PlannedJob(at, request, queue)
