# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""How quick a training is with how many workers and cores. Pure."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import Final

# Speeds over shorter times say little: steps are uneven, and so is what else the host does.
_WINDOW_SECONDS: Final = 8.0
_LEAST_SECONDS: Final = 1.0


@dataclass(frozen=True)
class WorkerSample:
    """What a training has done so far, at one instant.

    Attributes:
        at: In seconds of a steady clock.
        workers: How many train.
        cores: How many they have.
        steps: Steps done.
        cpu_seconds: CPU time that these workers have used.
    """

    at: float
    workers: int
    cores: int
    steps: int
    cpu_seconds: float


class WorkerSpeeds:
    """What was learned from all looks.

    Attributes:
        speeds: Steps a second, by numbers of workers and cores.
        busy: Share of their cores that the workers kept busy lately; None if not known.
    """

    def __init__(self) -> None:
        self.speeds: dict[tuple[int, int], float] = {}
        self.busy: float | None = None
        self._since: WorkerSample | None = None

    def add(self, look: WorkerSample | None) -> None:
        """Take a look into account; None while the workers change."""
        since = self._since
        if look is None or since is None or not _is_comparable(since, look):
            self._since, self.busy = look, None
            return
        seconds = look.at - since.at
        if seconds >= _WINDOW_SECONDS:
            self.speeds[look.workers, look.cores] = (look.steps - since.steps) / seconds
            self.busy = (look.cpu_seconds - since.cpu_seconds) / (seconds * look.cores)
            self._since = look


def _is_comparable(since: WorkerSample, look: WorkerSample) -> bool:
    same = (since.workers, since.cores) == (look.workers, look.cores)
    return same and look.steps >= since.steps and look.cpu_seconds >= since.cpu_seconds


class StepRate:
    """How many steps a second a training does, whoever takes part."""

    def __init__(self) -> None:
        self._seen: deque[tuple[float, int]] = deque()

    def add(self, at: float, steps: int) -> None:
        """Take note of how many are done at a time, in seconds of a steady clock."""
        if self._seen and steps < self._seen[-1][1]:
            self._seen.clear()  # It goes on from a checkpoint, or begins again.
        self._seen.append((at, steps))
        while len(self._seen) > 2 and self._seen[1][0] <= at - _WINDOW_SECONDS:
            self._seen.popleft()

    def steps_per_second(self) -> float | None:
        """Return the mean of the last seconds; None if too little was seen."""
        if not self._seen:
            return None
        (since, before), (at, steps) = self._seen[0], self._seen[-1]
        return (steps - before) / (at - since) if at - since >= _LEAST_SECONDS else None
