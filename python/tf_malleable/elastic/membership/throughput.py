# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Throughput of a training by numbers of workers and cores. Pure."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import Final

# Speeds over shorter times say little: steps are uneven, and so is the other load of the host.
_WINDOW_SECONDS: Final = 8.0
_LEAST_SECONDS: Final = 1.0


@dataclass(frozen=True)
class WorkerSample:
    """Progress of a training at one instant.

    Attributes:
        at: Time, in seconds of a steady clock.
        workers: Number of workers that train.
        cores: Number of cores that they have.
        steps: Number of steps done.
        cpu_seconds: CPU time that these workers have used, in seconds.
    """

    at: float
    workers: int
    cores: int
    steps: int
    cpu_seconds: float


class WorkerSpeeds:
    """Speeds measured from all samples.

    Attributes:
        speeds: Steps a second, by numbers of workers and cores.
        busy: Share of their cores that the workers kept busy lately; None if unknown.
    """

    def __init__(self) -> None:
        self.speeds: dict[tuple[int, int], float] = {}
        self.busy: float | None = None
        self._since: WorkerSample | None = None

    def add(self, look: WorkerSample | None) -> None:
        """Add a sample; None while the workers change."""
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
    """Steps a second of a training, whatever its members."""

    def __init__(self) -> None:
        self._seen: deque[tuple[float, int]] = deque()
        self._are_batches = False

    def add(self, at: float, steps: int, *, are_batches: bool) -> None:
        """Note the number of steps done.

        Args:
            at: Time, in seconds of a steady clock.
            steps: Number of steps done.
            are_batches: True if members count batches. A coordinator that has just restarted knows
                only steps until they report, and these may be far fewer.
        """
        # The training may continue from a checkpoint, or begin again.
        if are_batches != self._are_batches or (self._seen and steps < self._seen[-1][1]):
            self._seen.clear()
        self._are_batches = are_batches
        self._seen.append((at, steps))
        while len(self._seen) > 2 and self._seen[1][0] <= at - _WINDOW_SECONDS:
            self._seen.popleft()

    def steps_per_second(self) -> float | None:
        """Return the mean rate of the last seconds; None if too little was seen."""
        if not self._seen:
            return None
        (since, before), (at, steps) = self._seen[0], self._seen[-1]
        return (steps - before) / (at - since) if at - since >= _LEAST_SECONDS else None
