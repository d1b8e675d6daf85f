# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Workers that join, leave and are killed, and for how long the others pause."""

from __future__ import annotations

import signal
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from benchmarks.elastic.group import Group, group, wait_until

REASONS: Final = ("join", "leave", "lost")
EVENTS_A_TIME: Final = 4
"""Two joins, a leave and a kill."""
_SHARD_SECONDS: Final = 0.01
_REST_SECONDS: Final = 0.3

Pauses = Mapping[str, Sequence[float]]
"""Seconds, by the reason."""


@dataclass(frozen=True)
class Program:
    """A program whose workers come and go.

    Attributes:
        arguments: Of Python.
        times: How often in a round a worker leaves, and one is killed.
        usual: The median pause allowed, in seconds.
        longest: The longest, or of many the 99th percentile.
    """

    arguments: tuple[str, ...]
    times: int
    usual: float | None
    longest: float


def _bare(words: int) -> tuple[str, ...]:
    return "-m", "benchmarks.elastic.worker", str(words), str(_SHARD_SECONDS)


def _keras(width: int, batch: int) -> tuple[str, ...]:
    return "-m", "benchmarks.elastic.dense", str(width), str(batch)


PROGRAMS: Final = {
    "pauses-1m": Program(_bare(1_000_000), 10, 0.1, 1.0),
    "pauses-25m": Program(_bare(25_000_000), 5, None, 3.0),
    "pauses-keras-1m": Program(_keras(680, 128), 3, 0.1, 1.0),
    "pauses-keras-25m": Program(_keras(4620, 16), 2, None, 3.0),
}


def measure(program: Program) -> dict[str, list[float]]:
    """Return the pauses of a round of joins, leaves and kills, in seconds.

    Two workers become three and two again, so that it is those two that pause.
    """
    with group() as training:
        training.add_worker(program.arguments)
        training.settle(_REST_SECONDS)
        training.add_worker(program.arguments)
        _settle(training)
        for _ in range(program.times):
            for number in (signal.SIGTERM, signal.SIGKILL):
                worker = training.add_worker(program.arguments)
                _settle(training)
                training.remove(worker, number)
                _settle(training)
        found = training.status()["rescales"]
    pauses: dict[str, list[float]] = {reason: [] for reason in REASONS}
    for each in found:
        if each["reason"] in pauses and each["pause_seconds"] is not None:
            pauses[each["reason"]].append(each["pause_seconds"])
    return pauses


def _settle(training: Group) -> None:
    """Wait until a worker that stayed has told its pause, after a step more, and then a little."""
    training.settle()
    wait_until(
        lambda: training.status()["rescales"][-1]["pause_seconds"] is not None, training.processes
    )
    time.sleep(_REST_SECONDS)
