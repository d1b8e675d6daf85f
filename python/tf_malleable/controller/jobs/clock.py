# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""The clock of all records: Unix time that never jumps. And when to look again."""

from __future__ import annotations

import time


class Clock:
    """Unix time as of its creation, and monotonic since."""

    def __init__(self) -> None:
        self._epoch = time.time() - time.monotonic()

    def now(self) -> float:
        """Return the time in seconds."""
        return self._epoch + time.monotonic()


def until_next(period: float) -> float:
    """Return the seconds until the next multiple of a period, at least a quarter of one.

    Waking up costs an idle controller more than most of what it then does. What is done now and
    then is done together, if all sleep for so long.

    Args:
        period: In seconds.
    """
    rest = period - time.monotonic() % period
    return rest if rest > period / 4 else rest + period
