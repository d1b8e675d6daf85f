# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""What is done to a job's processes from outside: confine them, stop them, let them go on."""

from __future__ import annotations

import signal
from collections.abc import Iterable

from tf_malleable.controller import processes
from tf_malleable.controller.live import Live


def enforce(live: Live) -> None:
    """Carry a job's grant out from outside, by CPU affinity."""
    if live.record.grant.cpus:
        processes.confine(live.tree, live.record.grant.cpus)
    live.enforced = True


def confine_agentless(live: Live, pids: Iterable[int]) -> None:
    """Confine those of a running job's processes that have no agent to do it."""
    cpus = live.record.grant.cpus
    if live.record.state == "running" and cpus:
        processes.confine([pid for pid in pids if pid not in live.agents], cpus)


def suspend(live: Live) -> None:
    """Stop a job's processes."""
    live.suspended = True
    processes.send(live.tree, signal.SIGSTOP)
    # Children that were born before their parent stopped.
    pid = live.record.process.pid
    late = [child for child in processes.trees([pid])[pid] if child not in live.tree]
    processes.send(late, signal.SIGSTOP)
    live.tree += late


def resume(live: Live) -> None:
    """Let a job's processes go on."""
    processes.send(live.tree, signal.SIGCONT)
    live.suspended = False
