# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Files that say which jobs arrive when.

A job is a line: the second of its arrival, then what follows `tfm run` on a command
line. So there is nothing to learn besides `tfm run`, a line can be tried out by
pasting it into a shell, and the options, their checks and their help are the same
code. (TOML or CSV would need a second spelling of every option, a library on Python
3.10, and a decision on how a command is cut into words: here the shell's.)

    # seconds  options                          command
    0          --name cnn --max 2               -- python cnn.py --epochs 3
    2.5        --min 2 --priority 10            -- python big.py
    2.5        python small.py "with spaces"
"""

from __future__ import annotations

import math
import shlex
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click
from click.core import ParameterSource

from tf_malleable.agent.address import Join
from tf_malleable.cli.naming import default_name
from tf_malleable.cli.run import run

_NOT_HERE = ("threads", "follow_cgroup", "socket", "id_file")


@dataclass(frozen=True)
class PlannedJob:
    """A job that is to arrive.

    Attributes:
        at: When, in seconds after the workload's start.
        command: The program and its arguments.
        name: What to call it.
        min: With fewer cores it does not run.
        preferred: What it asks for; None for max.
        max: More would not help; None for all of the machine.
        priority: Higher goes first, in policies that look at it.
        weight: Share against others, in policies that look at it.
        queue: Wait until there are cores; otherwise be refused.

    Raises:
        ValueError: One of them is not what it should be.
    """

    at: float
    command: tuple[str, ...]
    name: str
    min: int = 1
    preferred: int | None = None
    max: int | None = None
    priority: int = 0
    weight: float = 1.0
    queue: bool = True

    def __post_init__(self) -> None:
        if not math.isfinite(self.at) or self.at < 0:
            raise ValueError(f"an arrival must be a number of seconds from 0, not {self.at}")
        if not self.command:
            raise ValueError("there is no command")
        Join("unused", self.name, (), **self._shape())

    def _shape(self) -> dict[str, Any]:
        names = ("min", "preferred", "max", "priority", "weight")
        return {name: getattr(self, name) for name in names if getattr(self, name) is not None}

    @property
    def arguments(self) -> list[str]:
        """What follows `tfm run` to start it."""
        options = [f"--{name}={value}" for name, value in self._shape().items()]
        return [
            f"--name={self.name}",
            *options,
            "--queue" if self.queue else "--no-queue",
            "--",
            *self.command,
        ]


def read_workload(path: Path) -> list[PlannedJob]:
    """Return the jobs of a workload file, in order of arrival.

    Raises:
        ValueError: It cannot be read, a line is wrong, or there is no job in it.
    """
    try:
        lines = path.read_text().splitlines()
    except OSError as error:
        raise ValueError(f"cannot read {path}: {error.strerror}") from None
    except UnicodeDecodeError:
        raise ValueError(f"{path} is not a text file") from None
    jobs = []
    for number, line in enumerate(lines, 1):
        try:
            words = shlex.split(line, comments=True)
            if words:
                jobs.append(_parse(words))
        except ValueError as error:
            raise ValueError(f"{path}, line {number}: {error}") from None
        except click.UsageError as error:
            raise ValueError(f"{path}, line {number}: {error.format_message()}") from None
    if not jobs:
        raise ValueError(f"there is no job in {path}")
    return sorted(jobs, key=lambda job: job.at)


def _parse(words: list[str]) -> PlannedJob:
    first, *rest = words
    try:
        at = float(first)
    except ValueError:
        raise ValueError(
            f"a line must begin with the second of the job's arrival, not {first!r}"
        ) from None
    context = run.make_context("tfm run", rest, help_option_names=[])
    for option in _NOT_HERE:
        if context.get_parameter_source(option) is ParameterSource.COMMANDLINE:
            raise ValueError(f"--{option.replace('_', '-')} cannot be given in a workload")
    options = {name: value for name, value in context.params.items() if name not in _NOT_HERE}
    options["name"] = options["name"] or default_name(options["command"])
    return PlannedJob(at=at, **options)
