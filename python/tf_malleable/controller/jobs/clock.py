# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""The clock of all records: Unix time that never jumps."""

from __future__ import annotations

import time


class Clock:
    """Unix time as of its creation, and monotonic since."""

    def __init__(self) -> None:
        self._epoch = time.time() - time.monotonic()

    def now(self) -> float:
        """Return the time in seconds."""
        return self._epoch + time.monotonic()
