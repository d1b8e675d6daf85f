# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Scheduling priority of the controller, whose jobs keep all CPUs busy."""

from __future__ import annotations

import os
import threading
from contextlib import suppress
from pathlib import Path

from tf_malleable.model import Cpuset

# Above the weight of a job, of which each core may weigh sixteen times as much as usual.
_NICE = -20
_AUTOGROUP = Path("/proc/self/autogroup")
# Id of a thread that may use all CPUs that the process may use; 0 is the main thread.
_unpinned = 0


def raise_priority() -> None:
    """Reduce the scheduling latency of this process after a wake-up.

    With autogroup, Linux schedules each session as a group and divides a group's weight
    among the CPUs on which it ran recently. A session that mostly sleeps and wakes up on
    changing CPUs was measured to wait up to 130 ms next to trainings. A higher weight
    helps; without permission for that, staying on one CPU helps.
    """
    try:
        os.setpriority(os.PRIO_PROCESS, 0, _NICE)
    except PermissionError:
        _stay_on_one_cpu()
        return
    # Only as the leader of the session. Otherwise other programs would be in the group, too.
    if os.getsid(0) == os.getpid():
        with suppress(OSError):
            _AUTOGROUP.write_text(str(_NICE))


def unpinned_thread() -> int:
    """Return the id of a thread whose affinity is not restricted by raise_priority()."""
    return _unpinned


def unpinned_cpus() -> Cpuset:
    """Return the CPUs that this process may use, regardless of raise_priority()."""
    return frozenset(os.sched_getaffinity(_unpinned))


def _stay_on_one_cpu() -> None:
    global _unpinned
    # This thread only waits. The kernel updates its affinity when the machine changes.
    keeper = threading.Thread(target=threading.Event().wait, name="tfm-cpus", daemon=True)
    keeper.start()
    _unpinned = keeper.native_id or 0
    os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
