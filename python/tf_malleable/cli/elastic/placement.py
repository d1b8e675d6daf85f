# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Gives each worker of a training on this host its part of the granted CPUs."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterable, Mapping, Sequence

from tf_malleable.elastic.membership.cpu_split import split
from tf_malleable.linux import affinity, procfs, topology
from tf_malleable.model import Cpuset


class Placement:
    """Confines processes from outside; may be called from any thread.

    The workers' limits of threads follow their affinity.
    """

    def __init__(self, most: int) -> None:
        """Begin without a grant.

        Args:
            most: Most CPUs of a worker.
        """
        self._most = most
        self._lock = threading.Lock()
        self._cpus: Sequence[int] = ()
        self._members: tuple[int, ...] = ()
        self._starting: tuple[int, ...] = ()
        self._parts: dict[int, Cpuset] = {}

    @property
    def cpus(self) -> Sequence[int]:
        """The granted CPUs; none before the first grant."""
        return self._cpus

    def take(self, cpus: Iterable[int]) -> None:
        """Share out these CPUs from now on; all processes are confined to them on return."""
        with self._lock:
            self._cpus = _in_order(frozenset(cpus))
            self._carry_out()

    def arrange(self, members: Iterable[int], starting: Iterable[int]) -> None:
        """Place these processes, and all others that this one has started.

        Args:
            members: Pids of the workers that train, in the order in which they began.
            starting: Of those that will: they have what will be theirs, and share it until then.
        """
        with self._lock:
            self._members, self._starting = tuple(members), tuple(starting)
            if self._cpus:
                self._carry_out()

    def parts(self) -> Mapping[int, Cpuset]:
        """Return the CPUs of each worker, by pid."""
        with self._lock:
            return dict(self._parts)

    def cpu_seconds(self) -> float:
        """Return the CPU time that the workers that train have used."""
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
            # What the user's program has confined within its part stays so.
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
    """Return whether a process, but for some of its threads, may use these CPUs and no others."""
    try:
        return os.sched_getaffinity(pid) == cpus
    except OSError:
        return False


def _in_order(cpus: Cpuset) -> list[int]:
    """Return these CPUs, those of one core and of one NUMA node next to each other."""
    machine = topology.present(cpus, cpus, len(cpus))
    return [cpu.id for cpu in sorted(machine.cpus, key=lambda cpu: (cpu.node, cpu.core, cpu.id))]
