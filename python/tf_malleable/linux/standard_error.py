# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Lines on stderr, written by processes that must go on if that is impossible.

A service's stderr may be a file on a full disk, a terminal that has been closed, or nothing.
"""

from __future__ import annotations

import sys
from contextlib import suppress


def say(line: str) -> None:
    """Print a line on stderr; it is lost if it cannot be written."""
    if sys.stderr is not None:  # It was closed when the process started.
        with suppress(OSError, ValueError):
            print(line, file=sys.stderr, flush=True)
