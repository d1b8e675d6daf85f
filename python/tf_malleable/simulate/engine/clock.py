# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Virtual clock: an event heap that is independent of the meaning of the events."""

from __future__ import annotations

import heapq
from collections.abc import Callable

# Of events at the same time, decisions come last: one decision is enough for all.
FIRST, LAST = 0, 1


class Timer:
    """An action that runs at a time, unless it is cancelled."""

    __slots__ = ("action",)

    def __init__(self, action: Callable[[], None]) -> None:
        self.action: Callable[[], None] | None = action

    def cancel(self) -> None:
        """Cancel the action."""
        self.action = None


class VirtualClock:
    """Runs events in order of time; events of the same time run in order of creation.

    Attributes:
        now: Virtual time, in seconds.
    """

    def __init__(self) -> None:
        self.now = 0.0
        self._count = 0
        self._heap: list[tuple[float, int, int, Timer]] = []

    def at(self, time: float, action: Callable[[], None], order: int = FIRST) -> Timer:
        """Call `action` at a time, or as soon as possible if that time has passed."""
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
