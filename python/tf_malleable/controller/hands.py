# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""What is done to a job from outside: confine it, stop it, let it go on, end it.

Processes of the host are told by the kernel, containers by their engine: it would be
mistaken about them otherwise.
"""

from __future__ import annotations

import signal
from collections.abc import Iterable

from tf_malleable.controller import processes
from tf_malleable.controller.live import Live
from tf_malleable.controller.record import ProcessId
from tf_malleable.model import Cpuset

_UNCHANGED: Cpuset = frozenset()


def enforce(live: Live) -> None:
    """Carry a job's grant out from outside: processes by CPU affinity.

    A container is looked at later, to see whether that was done.
    """
    cpus = live.record.grant.cpus
    if live.container is not None and cpus:
        live.container.carry_out(cpus, frozen=False)
        return
    if cpus:
        processes.confine(live.tree, cpus)
    live.enforced = True


def confine_agentless(live: Live, pids: Iterable[int]) -> None:
    """Confine those of a running job's processes that have no agent to do it."""
    cpus = live.record.grant.cpus
    if live.record.state == "running" and cpus and live.container is None:
        processes.confine([pid for pid in pids if pid not in live.agents], cpus)


def suspend(live: Live) -> None:
    """Stop a job."""
    live.suspended = True
    if live.container is not None:
        live.container.carry_out(_UNCHANGED, frozen=True)
        return
    processes.send(live.tree, signal.SIGSTOP)
    # Children that were born before their parent stopped.
    late = [pid for pid in family(live.record.process) if pid not in live.tree]
    processes.send(late, signal.SIGSTOP)
    live.tree += late


def resume(live: Live) -> None:
    """Let a job go on."""
    live.suspended = False
    if live.container is not None:
        live.container.carry_out(live.record.grant.cpus, frozen=False)
    else:
        processes.send(live.tree, signal.SIGCONT)


def terminate(live: Live) -> None:
    """Tell a job to end."""
    live.suspended = False
    if live.container is not None:
        live.container.end(by_force=False)
        return
    live.tree = family(live.record.process)
    processes.send(live.tree, signal.SIGTERM)
    processes.send(live.tree, signal.SIGCONT)


def kill(live: Live) -> None:
    """End a job by force."""
    if live.container is not None:
        live.container.end(by_force=True)
    else:
        processes.send(live.tree, signal.SIGKILL)


def family(process: ProcessId | None) -> list[int]:
    """Return a process and all its descendants, as they are now."""
    return [] if process is None else processes.trees([process.pid])[process.pid]
