# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Trainings that are given a second thread after a third of their work."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from benchmarks.common import turns

# The limits of each training: for the first third of its steps, and from then on.
_PLANS = {"at_one": (1, 1), "enlarged": (1, 2), "at_two": (2, 2)}


@dataclass(frozen=True)
class Enlarging:
    """Seconds the typical training took at 1, at 2, and enlarged at a third of its work."""

    at_one: float
    at_two: float
    enlarged: float

    @property
    def share(self) -> float:
        """The realised share of the ideal gain."""
        return turns.realised_share(self.at_one, self.at_two, self.enlarged)


def measure(train: Callable[[int, int], list[float]], rounds: int) -> Enlarging:
    """Train twice in each way per round; return the typical trainings.

    For whole trainings the kernel may keep both threads on one CPU, on stock TensorFlow
    too: such a one must not count, and a slow first step at two must.

    Args:
        train: Trains with the first limit for a third of the steps and then with the second;
            returns the seconds of each step.
        rounds: Number of rounds.
    """
    taken: dict[str, list[list[float]]] = {name: [] for name in _PLANS}
    for number in range(rounds):
        # There and back, as turns.order() does for two.
        there = list(_PLANS) if number % 2 == 0 else list(_PLANS)[::-1]
        for name in there + there[::-1]:
            taken[name].append(train(*_PLANS[name]))
    return Enlarging(**{name: turns.typical_training(each) for name, each in taken.items()})
