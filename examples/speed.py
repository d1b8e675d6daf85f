# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""How fast this machine trains, so that a workload can take about as long on any machine.

Otherwise waiting, arrivals and TensorFlow's start would weigh more on a fast machine than on
a slow one.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

TRAININGS: Final = Path(__file__).with_name("trainings")

# Seconds of one step on one core of about 2025, with the default --size.
STEP_SECONDS: Final = {"cnn": 0.0094, "dense": 0.0082, "rnn": 0.0068}
# Two lengths differ by the time of their steps alone, without TensorFlow's start.
_FEW_STEPS: Final = 20


class TrainingError(Exception):
    """A training failed; in one sentence."""


def import_once(environment: Mapping[str, str] | None = None) -> None:
    """Import what the trainings import, so that the first one need not wait for the disk.

    Raises:
        TrainingError: It cannot be imported.
    """
    program = "import keras, sklearn.datasets"
    _run((sys.executable, "-c", program), environment, repr(program))


def measure(program: str, seconds: float, environment: Mapping[str, str] | None = None) -> float:
    """Return this machine's speed on one core; 1 is the speed of STEP_SECONDS.

    Args:
        program: A training of STEP_SECONDS.
        seconds: How long to measure on a machine of speed 1, without TensorFlow's two starts.
        environment: Environment of the training; None for this process's.

    Raises:
        TrainingError: The training failed.
    """
    usual = STEP_SECONDS[program]
    steps = round(seconds / usual)
    few = _seconds(program, _FEW_STEPS, environment)
    taken = _seconds(program, _FEW_STEPS + steps, environment) - few
    # Two digits: it is not more certain than that.
    return float(f"{usual * steps / max(taken, usual):.2g}")


def scaled(command: Sequence[str], factor: float) -> tuple[str, ...]:
    """Return a training's command with `factor` times as many steps, at least one."""
    found = list(command)
    place = found.index("--steps") + 1
    found[place] = str(max(1, round(int(found[place]) * factor)))
    return tuple(found)


def _seconds(program: str, steps: int, environment: Mapping[str, str] | None) -> float:
    cpu = min(os.sched_getaffinity(0))
    script = str(TRAININGS / f"{program}.py")
    training = (sys.executable, script, "--steps", str(steps))
    command = ("taskset", "--cpu-list", str(cpu), *training)
    start = time.monotonic()
    _run(command, environment, f"the training {program}")
    return time.monotonic() - start


def _run(command: Sequence[str], environment: Mapping[str, str] | None, what: str) -> None:
    done = subprocess.run(
        command, env=environment, capture_output=True, text=True, errors="replace", check=False
    )
    if done.returncode != 0:
        last = done.stderr.strip().splitlines()[-1:] or [f"exit code {done.returncode}"]
        raise TrainingError(f"{what} failed: {last[0]}")
