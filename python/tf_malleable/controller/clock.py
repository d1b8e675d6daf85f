# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Clock of all records, which is Unix time that never jumps; and aligned polling intervals."""

from __future__ import annotations

import time


class Clock:
    """Clock that starts at the Unix time of its creation and is monotonic since."""

    def __init__(self) -> None:
        self._epoch = time.time() - time.monotonic()

    def now(self) -> float:
        """Return the Unix time in seconds."""
        return self._epoch + time.monotonic()


def until_next(period: float) -> float:
    """Return the seconds until the next multiple of a period, at least a quarter of one.

    A wake-up costs an idle controller more than most of the work that it then does. Periodic
    tasks that sleep for this time wake up together.

    Args:
        period: Period in seconds.
    """
    rest = period - time.monotonic() % period
    return rest if rest > period / 4 else rest + period
