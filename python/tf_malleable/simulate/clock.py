# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Virtual time: an event heap. Nothing here knows what the events are."""

from __future__ import annotations

import heapq
from collections.abc import Callable

# Of events at the same time, decisions come after all else: one is enough for all.
FIRST, LAST = 0, 1


class Timer:
    """Something that happens at a time, unless it is cancelled."""

    __slots__ = ("action",)

    def __init__(self, action: Callable[[], None]) -> None:
        self.action: Callable[[], None] | None = action

    def cancel(self) -> None:
        """Let it not happen."""
        self.action = None


class VirtualClock:
    """Runs events in the order of their times; of equal times, in the order they were made.

    Attributes:
        now: Virtual time, in seconds.
    """

    def __init__(self) -> None:
        self.now = 0.0
        self._count = 0
        self._heap: list[tuple[float, int, int, Timer]] = []

    def at(self, time: float, action: Callable[[], None], order: int = FIRST) -> Timer:
        """Call `action` at a time, or at once if that is over."""
        timer = Timer(action)
        self._count += 1
        heapq.heappush(self._heap, (max(time, self.now), order, self._count, timer))
        return timer

    def step(self) -> bool:
        """Run the next event; return whether there was one."""
        while self._heap:
            time, _, _, timer = heapq.heappop(self._heap)
            action = timer.action
            if action is not None:
                timer.action = None
                self.now = time
                action()
                return True
        return False
