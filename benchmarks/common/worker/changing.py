# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""A step that is repeated while the limits change.

Imported by a worker only, after tf_malleable.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence

import tf_malleable as tfm

_LIMITS = (1, 2)
_PERIOD_SECONDS = 1.0
# How long it changes at a time, and how long each rate is measured between.
_BLOCK_SECONDS = 4.0
_RATE_SECONDS = 2.0


def measure(step: Callable[[], object], seconds: float) -> dict[str, float]:
    """Return how many steps were done, and how many would be if changes cost nothing.

    That is the time with each limit times the rate under it, which is measured between, as
    a process becomes slower and faster by a tenth within a minute.
    """
    blocks = max(1, round(seconds / _BLOCK_SECONDS))
    steps, ideal = 0, 0.0
    before = _rates(step, _LIMITS)
    for number in range(blocks):
        done, spent = _repeat(step, _BLOCK_SECONDS)
        after = _rates(step, _LIMITS if number % 2 else tuple(reversed(_LIMITS)))
        steps += done
        ideal += sum(spent[limit] * (before[limit] + after[limit]) / 2 for limit in _LIMITS)
        before = after
    return {"steps": steps, "ideal": ideal}


def durations(step: Callable[[], object], steps: int, first: int, then: int) -> list[float]:
    """Return the seconds of each step, with one limit for a third of them, then with another.

    What the change takes belongs to the step before which it is made.
    """
    tfm.set_threads(first)
    tfm.wait_settled(10)
    step()
    taken = []
    for number in range(steps):
        start = time.perf_counter()
        if number == steps // 3 and then != first:
            tfm.set_threads(then)
        step()
        taken.append(time.perf_counter() - start)
    return taken


def _rates(step: Callable[[], object], limits: Sequence[int]) -> dict[int, float]:
    return {limit: _rate(step, limit) for limit in limits}


def _rate(step: Callable[[], object], limit: int) -> float:
    """Return the steps per second at a limit."""
    tfm.set_threads(limit)
    tfm.wait_settled(10)
    for _ in range(3):
        step()
    steps, start = 0, time.perf_counter()
    while (wall := time.perf_counter() - start) < _RATE_SECONDS:
        step()
        steps += 1
    return steps / wall


def _repeat(step: Callable[[], object], seconds: float) -> tuple[int, dict[int, float]]:
    """Return the steps done while limits changed, and the seconds spent with each."""
    spent = dict.fromkeys(_LIMITS, 0.0)
    over = threading.Event()

    def change() -> None:
        number = 0
        while not over.is_set():
            limit = _LIMITS[number % len(_LIMITS)]
            tfm.set_threads(limit)
            start = time.perf_counter()
            over.wait(_PERIOD_SECONDS)
            spent[limit] += time.perf_counter() - start
            number += 1

    thread = threading.Thread(target=change)
    steps, end = 0, time.perf_counter() + seconds
    thread.start()
    try:
        while time.perf_counter() < end:
            step()
            steps += 1
    finally:
        over.set()
        thread.join()
    return steps, spent
