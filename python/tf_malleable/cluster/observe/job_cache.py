# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Job cache: what an operator remembers of a job beyond the API; a successor needs none of it."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from tf_malleable.cluster.planning.cluster_job import ClusterRate
from tf_malleable.elastic.membership.worker_count import Sizing

# Minimum time and number of steps of a measured speed that decisions rest on, and maximum time.
_SETTLED_SECONDS: Final = 5.0
_FEWEST_STEPS: Final = 3
_LONGEST_SECONDS: Final = 30.0

Size = tuple[int, int, int]
"""CPUs of all workers, number of workers, and number of their nodes."""


class StepSpeed:
    """Measured speed of a training, in steps per second, for each size that it had."""

    def __init__(self) -> None:
        self.rates: dict[Size, float] = {}
        self._size: tuple[Size, int] | None = None
        self._samples: deque[tuple[float, int]] = deque()

    def note(self, at: float, step: int, size: Size, generation: int) -> None:
        """Record a training's progress.

        Args:
            at: Time of the observation, in seconds.
            step: Next step of the training.
            size: Size of the training.
            generation: Number of the current generation.
        """
        if self._size != (size, generation) or (self._samples and step < self._samples[-1][1]):
            self._size = size, generation
            self._samples.clear()
        self._samples.append((at, step))
        while self._samples[0][0] < at - _LONGEST_SECONDS:
            self._samples.popleft()
        begin, first = self._samples[0]
        if at - begin >= _SETTLED_SECONDS and step - first >= _FEWEST_STEPS:
            self.rates[size] = (step - first) / (at - begin)

    def measured(self) -> tuple[ClusterRate, ...]:
        """Return all speeds that were measured for long enough, sorted by size."""
        return tuple(ClusterRate(*size, rate) for size, rate in sorted(self.rates.items()))


@dataclass(frozen=True)
class ApiRefusal:
    """ApiRefusal of what the operator wanted to create for a job.

    Attributes:
        reason: Reason in one word.
        message: Message of the API server, for people.
        generation: Generation of the job's spec that was refused.
        since: Time of the first refusal in a row, in seconds since the epoch.
        count: Number of refusals in a row.
        until: Time to try again, in seconds since the epoch.
        pod: The refused pod; None if it was another object.
        is_allowed: True once the pod would be admitted, after a try that created nothing.
    """

    reason: str
    message: str
    generation: int
    since: float
    count: int
    until: float
    pod: Mapping[str, Any] | None = None
    is_allowed: bool = False


@dataclass
class JobCache:
    """Remembered state of a job.

    Attributes:
        address: Address of the coordinator's Service; empty before it is known.
        sizing: Sizing from the job's last plan; None before the first.
        cpus: CPUs of the workers at the last decision, and since when, in seconds since the epoch;
            None before the first decision.
        avoided: For each node to which nothing new goes, the time until which, in seconds since
            the epoch.
        limits: For each worker whose resize was given up, by its pod's uid, the maximum CPUs and
            the time until which they apply, in seconds since the epoch.
        refused: Last refusal of a pod or of what pods need; None if none was refused.
        speed: Measured speed of the training.
        reported_at: Time of the last write of the status, in seconds since the epoch.
        problem: Problem for which the job is left out of decisions, as last logged.
    """

    address: str = ""
    sizing: Sizing | None = None
    cpus: tuple[int, float] | None = None
    avoided: dict[str, float] = field(default_factory=dict)
    limits: dict[str, tuple[int, float]] = field(default_factory=dict)
    refused: ApiRefusal | None = None
    speed: StepSpeed = field(default_factory=StepSpeed)
    reported_at: float = 0.0
    problem: str = ""

    def tidy(self, uids: Iterable[str], now: float) -> None:
        """Drop expired entries and limits of pods that are gone.

        Args:
            uids: Uids of the job's pods.
            now: Current time, in seconds since the epoch.
        """
        kept = set(uids)
        self.avoided = {node: until for node, until in self.avoided.items() if until > now}
        self.limits = {
            uid: each for uid, each in self.limits.items() if uid in kept and each[1] > now
        }
