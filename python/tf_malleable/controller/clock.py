# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Clock of all records, which is Unix time that never jumps; polling intervals; time unused."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager


class Clock:
    """Clock that starts at the Unix time of its creation and is monotonic since."""

    def __init__(self) -> None:
        self._epoch = time.time() - time.monotonic()

    def now(self) -> float:
        """Return the Unix time in seconds."""
        return self._epoch + time.monotonic()


class TimeUnused:
    """Time since a service was last used. Not thread-safe."""

    def __init__(self, now: Callable[[], float]) -> None:
        """Begin as if the service had just been used.

        Args:
            now: Returns the time in seconds.
        """
        self._now = now
        self._uses = 0
        self._last = now()

    @contextmanager
    def in_use(self) -> Iterator[None]:
        """Count as used during a with statement, such as while a request is answered."""
        self._uses += 1
        try:
            yield
        finally:
            self._uses -= 1
            self.note()

    def note(self) -> None:
        """Note that the service is used now."""
        self._last = self._now()

    def unused_seconds(self) -> float:
        """Return the seconds since the last use; 0 during one."""
        return 0.0 if self._uses else self._now() - self._last


def until_next(period: float) -> float:
    """Return the seconds until the next multiple of a period, at least a quarter of one.

    A wake-up costs an idle controller more than most of the work that it then does. Periodic
    tasks that sleep for this time wake up together.

    Args:
        period: Period in seconds.
    """
    rest = period - time.monotonic() % period
    return rest if rest > period / 4 else rest + period
