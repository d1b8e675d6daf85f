# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""The time of all records: Unix time that never jumps."""

from __future__ import annotations

import time


class Clock:
    """As the host's clock was when it was made, and steady since."""

    def __init__(self) -> None:
        self._epoch = time.time() - time.monotonic()

    def now(self) -> float:
        """Return the time in seconds."""
        return self._epoch + time.monotonic()
