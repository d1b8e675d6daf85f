# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""A controller that gets a CPU in time although its jobs keep all of them busy."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

_NICE = -10
_AUTOGROUP = Path("/proc/self/autogroup")


def raise_priority() -> None:
    """Ask the scheduler to run this process soon after it wakes up.

    Where sessions are scheduled as groups (autogroup), one that mostly sleeps and
    wakes up now on this CPU and now on that was seen to wait for 130 ms beside
    trainings, for a group's weight is divided among CPUs by where it ran lately. A
    higher weight helps; without permission for that, staying on one CPU does.
    """
    try:
        os.setpriority(os.PRIO_PROCESS, 0, _NICE)
    except PermissionError:
        os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
        return
    # Only a session that is ours alone: others have their programs in theirs.
    if os.getsid(0) == os.getpid():
        with suppress(OSError):
            _AUTOGROUP.write_text(str(_NICE))
