# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Placement of a training's workers on the CPUs that are granted on this host."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterable, Sequence

from tf_malleable.elastic.membership.cpu_split import split
from tf_malleable.linux import topology
from tf_malleable.linux.processes import affinity, procfs
from tf_malleable.model import Cpuset


class Placement:
    """Sets the affinity of the workers from outside; thread-safe.

    The thread limits of a worker follow its affinity.
    """

    def __init__(self, most: int) -> None:
        """Create a placement without a grant.

        Args:
            most: Maximum number of CPUs of a worker.
        """
        self._most = most
        self._lock = threading.Lock()
        self._cpus: Sequence[int] = ()
        self._members: tuple[int, ...] = ()
        self._starting: tuple[int, ...] = ()
        self._parts: dict[int, Cpuset] = {}

    @property
    def cpus(self) -> Sequence[int]:
        """Granted CPUs; empty before the first grant."""
        return self._cpus

    def take(self, cpus: Iterable[int]) -> None:
        """Distribute these CPUs from now on; on return, all processes are confined to them."""
        with self._lock:
            self._cpus = _in_order(frozenset(cpus))
            self._carry_out()

    def arrange(self, members: Iterable[int], starting: Iterable[int]) -> None:
        """Place the workers, and all other descendants of this process.

        Args:
            members: Pids of the workers that train, in order of their start.
            starting: Pids of the workers that will train. Each has the CPUs that it will have as
                a member, and shares them until then.
        """
        with self._lock:
            self._members, self._starting = tuple(members), tuple(starting)
            if self._cpus:
                self._carry_out()

    def cpu_seconds(self) -> float:
        """Return the CPU time that the training workers have used, in seconds."""
        with self._lock:
            members = self._members
        trees = map(procfs.descendants, members)
        found = [procfs.read_stat(pid) for tree in trees for pid in tree]
        return sum(stat.cpu_seconds for stat in found if stat is not None)

    def _carry_out(self) -> None:
        parts = self._split(self._members)
        later = self._split((*self._members, *self._starting))
        parts |= {pid: later[pid] for pid in self._starting}
        of_workers: set[int] = set()
        for pid, cpus in parts.items():
            tree = procfs.descendants(pid)
            of_workers.update(tree)
            # A narrower affinity that the user's program has set within its part stays.
            (affinity.narrow if _has(pid, cpus) else affinity.confine)(tree, cpus)
        rest = [pid for pid in procfs.descendants(os.getpid()) if pid not in of_workers]
        affinity.confine(rest, frozenset(self._cpus))
        self._parts = parts

    def _split(self, pids: tuple[int, ...]) -> dict[int, Cpuset]:
        names = [str(pid) for pid in pids]
        had = {str(pid): cpus for pid, cpus in self._parts.items()}
        found = split(self._cpus, names, had, self._most) if names else {}
        return {int(name): cpus for name, cpus in found.items()}


def _has(pid: int, cpus: Cpuset) -> bool:
    """Return whether the affinity of a process is exactly these CPUs; some threads may differ."""
    try:
        return os.sched_getaffinity(pid) == cpus
    except OSError:
        return False


def _in_order(cpus: Cpuset) -> list[int]:
    """Return these CPUs with those of one core, and of one NUMA node, next to each other."""
    machine = topology.present(cpus, cpus, len(cpus))
    return [cpu.id for cpu in sorted(machine.cpus, key=lambda cpu: (cpu.node, cpu.core, cpu.id))]
