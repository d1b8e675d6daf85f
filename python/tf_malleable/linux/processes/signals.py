# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Signals to several processes."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterable
from contextlib import suppress

from tf_malleable.linux.processes.pidfds import open_pidfd
from tf_malleable.model import ProcessId


def send(processes: Iterable[ProcessId], number: signal.Signals) -> None:
    """Send a signal to these processes; skip those that are gone or not permitted.

    The pid may belong to another process by now. So the signal goes through a pidfd of the
    process: once it is open, it refers to one process only, whose start time is then checked.
    """
    for process in processes:
        with suppress(OSError):
            pidfd = open_pidfd(process)
            if pidfd is None:
                continue
            try:
                signal.pidfd_send_signal(pidfd, number)
            finally:
                os.close(pidfd)
