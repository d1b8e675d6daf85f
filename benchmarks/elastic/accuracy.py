# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""How good models are that workers trained which came, left and were killed, and stock Keras's."""

from __future__ import annotations

import json
import random
import signal
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from benchmarks.common.command_line import BenchmarkError
from benchmarks.elastic.group import Group, Process, environment, group, wait_until

EPOCHS: Final = 30
_PROGRAM: Final = ("-m", "benchmarks.elastic.digits")
_TFM: Final = ("-m", "tf_malleable_cli", "elastic", "run", "--shards", "4")
# What happens to two workers, one of which comes when the other has begun, in a random order.
CHANGES: Final = ("join", "leave", "join", "lost")


@dataclass(frozen=True)
class Pair:
    """Trainings from the same weights on the same examples.

    Attributes:
        seed: Seed of the first weights, orders and dropout.
        stock: Accuracy of stock Keras.
        elastic: Accuracy of the elastic training with changes.
        changes: Its generations, after the first: why each began.
        same_bits: Its weights are those of one worker that was left alone, to the bit.
    """

    seed: int
    stock: float
    elastic: float
    changes: tuple[str, ...]
    same_bits: bool


def measure(seed: int) -> Pair:
    """Train in all ways.

    Raises:
        BenchmarkError: A training failed.
    """
    program = [*_PROGRAM, f"--seed={seed}", f"--epochs={EPOCHS}"]
    stock = Process([sys.executable, *program], environment())
    alone = [*_TFM, f"--seed={seed}", "--", sys.executable, *program]
    undisturbed = Process([sys.executable, *alone], environment())
    try:
        said, changes = _with_changes(program, seed)
        found, bits = _end_of(stock), _end_of(undisturbed)
    finally:
        for process in (stock, undisturbed):
            process.end()
    same = bits["weights"] == said["weights"]
    return Pair(seed, found["accuracy"], said["accuracy"], changes, same)


def schedule(seed: int) -> list[str]:
    """Return the changes of a seed in an order that leaves from one to three workers."""
    drawn = random.Random(seed)
    while True:
        order = drawn.sample(CHANGES, len(CHANGES))
        counts = [2]
        for change in order:
            counts.append(counts[-1] + (1 if change == "join" else -1))
        if min(counts) >= 1 and max(counts) <= 3:
            return order


def _with_changes(program: list[str], seed: int) -> tuple[dict[str, Any], tuple[str, ...]]:
    drawn = random.Random(seed)
    with tempfile.TemporaryDirectory(prefix="tfm-") as folder, group() as training:
        go_on = Path(folder) / "fast"
        words = [*program, f"--slow-until={go_on}", "--resized"]

        def join() -> None:
            training.add_worker(words, threads=2, options=[f"--seed={seed}"])

        join()
        join()
        training.settle()
        for change in schedule(seed):
            if change == "join":
                join()
            else:
                number = signal.SIGTERM if change == "leave" else signal.SIGKILL
                training.remove(drawn.choice(training.workers), number)
            training.settle()
        changes = tuple(each["reason"] for each in training.status()["rescales"][1:])
        go_on.touch()
        return _agreed(training), changes


def _agreed(training: Group) -> dict[str, Any]:
    """Return what all workers print at the end."""
    said = [_end_of(worker) for worker in training.workers]
    if any(each != said[0] for each in said):
        raise BenchmarkError("workers of one training have ended with different weights")
    return said[0]


def _end_of(process: Process) -> dict[str, Any]:
    wait_until(lambda: process.poll() is not None)
    assert process.stdout is not None
    text = process.stdout.read()
    if process.returncode or not text:
        raise process.problem()
    found: dict[str, Any] = json.loads(text.splitlines()[-1])
    return found
