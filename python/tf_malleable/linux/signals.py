# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Signals to several processes."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterable
from contextlib import suppress


def send(pids: Iterable[int], number: signal.Signals) -> None:
    """Send a signal to these processes; skip those that are gone or not permitted."""
    for pid in pids:
        with suppress(ProcessLookupError, PermissionError):
            os.kill(pid, number)
