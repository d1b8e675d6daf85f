# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""What the operator remembers of a job beside what the API has; one after it can do without."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final

from tf_malleable.cluster.planning.cluster_job import ClusterRate
from tf_malleable.elastic.membership.worker_count import Sizing

# Of a speed that decisions rest on.
_SETTLED_SECONDS: Final = 5.0
_FEWEST_STEPS: Final = 3
_LONGEST_SECONDS: Final = 30.0

Size = tuple[int, int, int]
"""CPUs of all workers, workers, and nodes that they are on."""


class StepSpeed:
    """Measures steps a second, for each size that a training had."""

    def __init__(self) -> None:
        self.rates: dict[Size, float] = {}
        self._size: tuple[Size, int] | None = None
        self._samples: deque[tuple[float, int]] = deque()

    def note(self, at: float, step: int, size: Size, generation: int) -> None:
        """Take note of how far a training is.

        Args:
            at: When, in seconds.
            step: Its next step.
            size: Its size.
            generation: Its generation.
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
        """Return all speeds that were measured for long enough."""
        return tuple(ClusterRate(*size, rate) for size, rate in sorted(self.rates.items()))


@dataclass
class JobCache:
    """What is remembered of a job.

    Attributes:
        address: Of its coordinator's Service; empty before it is known.
        sizing: From its last plan.
        cpus: How many its workers had when that was last looked at; and since when.
        avoided: Until when nothing new goes to a node, in seconds since the epoch.
        limits: Most CPUs of workers whose resize was given up, by the pods' uids; until when.
        refused: Why its pods were refused, in one word and for people, and when to try again.
        speed: Of its training.
        reported_at: When its status was last written.
    """

    address: str = ""
    sizing: Sizing | None = None
    cpus: tuple[int, float] | None = None
    avoided: dict[str, float] = field(default_factory=dict)
    limits: dict[str, tuple[int, float]] = field(default_factory=dict)
    refused: tuple[str, str, float] | None = None
    speed: StepSpeed = field(default_factory=StepSpeed)
    reported_at: float = 0.0

    def tidy(self, uids: Iterable[str], now: float) -> None:
        """Forget what is over.

        Args:
            uids: Of the job's pods.
            now: In seconds since the epoch.
        """
        kept = set(uids)
        self.avoided = {node: until for node, until in self.avoided.items() if until > now}
        self.limits = {
            uid: each for uid, each in self.limits.items() if uid in kept and each[1] > now
        }
