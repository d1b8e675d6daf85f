# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Placement: turns each job's number of cores into CPU ids.

Moving a CPU costs both jobs their caches, so jobs first keep the CPUs they have. CPUs are
added and removed so that a job has whole physical cores, on few NUMA nodes.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from tf_malleable.model import Cpuset, Job, Machine

_NOTHING: Cpuset = frozenset()


def place(counts: Mapping[str, int], jobs: Sequence[Job], machine: Machine) -> dict[str, Cpuset]:
    """Return the CPUs of each job that gets any.

    A job keeps the CPUs it has, lent ones included, up to its count. If two jobs have the
    same CPU, the one that started first keeps it. Among equally good CPUs the lowest
    number wins, so the result is deterministic.

    Args:
        counts: Number of cores by job id; a missing job gets none.
        jobs: All jobs, with their current grants.
        machine: The CPUs to share out.

    Raises:
        ValueError: The counts exceed the machine.
    """
    chosen = first_started([job for job in jobs if counts.get(job.id)])
    wanted = [(job, counts[job.id]) for job in chosen]
    asked = sum(count for _, count in wanted)
    if asked > len(machine.cpus):
        raise ValueError(f"cannot place {asked} cores: the machine has {len(machine.cpus)}")
    layout = Layout(machine)
    free = set(machine.cpuset)
    placed: dict[str, Cpuset] = {}
    growing: list[_Growth] = []
    for job, count in wanted:
        kept = job.grant.own
        if kept:
            if not kept <= free:
                kept &= free
            if len(kept) > count:
                kept = layout.shrunk(kept, count)
            free -= kept
        placed[job.id] = kept
        if len(kept) < count:
            growing.append(_Growth(job.id, kept, count - len(kept)))
    if growing:
        added = _Free(layout, free).share_out(growing)
        for growth in growing:
            placed[growth.job] = growth.kept.union(added[growth.job])
    return placed


def first_started(jobs: Iterable[Job]) -> list[Job]:
    """Return jobs by the time they first had cores, then those that never had any."""
    return sorted(jobs, key=lambda job: (job.started is None, job.started or 0.0))


class _Growth(NamedTuple):
    job: str
    kept: Cpuset
    more: int


class Layout:
    """Cores and nodes of a machine's CPUs, computed lazily: most decisions move no CPU.

    The layout is cached with the machine.

    Args:
        machine: The machine.
    """

    def __init__(self, machine: Machine) -> None:
        self._machine = machine

    @property
    def core(self) -> Mapping[int, int]:
        """Physical core by CPU id."""
        return self._machine.core_of

    @property
    def node(self) -> Mapping[int, int]:
        """NUMA node by CPU id."""
        return self._machine.node_of

    @property
    def size(self) -> Mapping[int, int]:
        """Number of CPUs by physical core."""
        return self._machine.core_sizes

    def by_core(self, cpus: Iterable[int]) -> dict[int, list[int]]:
        """Return CPUs grouped by physical core, in ascending order."""
        core = self.core
        if len(self.size) == len(core):
            return {core[cpu]: [cpu] for cpu in sorted(cpus)}
        groups: dict[int, list[int]] = {}
        for cpu in sorted(cpus):
            groups.setdefault(core[cpu], []).append(cpu)
        return groups

    def shrunk(self, cpus: Cpuset, count: int) -> Cpuset:
        """Return `count` of a job's CPUs, so that whole physical cores are given up.

        The job keeps whole cores, on the nodes where it has most CPUs. A core is split only if
        the job has no partial core to keep instead.
        """
        if count >= len(cpus):
            return cpus
        if count <= 0:
            return _NOTHING
        held = Counter(self.node[cpu] for cpu in cpus)
        groups = sorted(
            self.by_core(cpus).values(),
            key=lambda group: (-held[self.node[group[0]]], self.node[group[0]], -len(group), group),
        )
        kept: list[int] = []
        rest: list[list[int]] = []
        for group in groups:
            if len(group) <= count - len(kept):
                kept += group
            else:
                rest.append(group)
        if len(kept) < count:
            kept += min(rest, key=len)[: count - len(kept)]
        return frozenset(kept)


class _Free:
    """The free CPUs by NUMA node, with whole and partial physical cores kept apart."""

    def __init__(self, layout: Layout, free: Iterable[int]) -> None:
        self._layout = layout
        self._core = layout.core
        self._sizes = sorted(set(layout.size.values()), reverse=True)
        self._left: dict[int, int] = {}
        # By node, then by size or core. The last is taken first, so these are built in
        # descending order.
        self._whole: dict[int, dict[int, list[list[int]]]] = defaultdict(dict)
        self._parts: dict[int, dict[int, list[int]]] = defaultdict(dict)
        node_of, size_of, left = layout.node, layout.size, self._left
        for core, cpus in reversed(layout.by_core(free).items()):
            node, size = node_of[cpus[0]], len(cpus)
            left[node] = left.get(node, 0) + size
            if size == size_of[core]:
                self._whole[node].setdefault(size, []).append(cpus)
            else:
                self._parts[node][core] = cpus
        # Nodes by number of CPUs left: there may be a thousand nodes.
        self._order = sorted((left, node) for node, left in self._left.items())

    def share_out(self, growing: Iterable[_Growth]) -> dict[str, list[int]]:
        """Return the additional CPUs of each job.

        Jobs that need most choose first. All jobs first complete their partial cores, then
        take whole ones; only then are cores split.
        """
        growing = sorted(growing, key=lambda growth: -growth.more)
        plans = [self._plan(growth) for growth in growing]
        added = [
            self._complete(growth, plan) if growth.kept else []
            for growth, plan in zip(growing, plans, strict=True)
        ]
        for take in (self._take_whole, self._take_parts):
            for plan, cpus in zip(plans, added, strict=True):
                for node, more in plan.items():
                    if more:
                        taken = take(node, more)
                        plan[node] -= len(taken)
                        cpus += taken
        return {growth.job: cpus for growth, cpus in zip(growing, added, strict=True)}

    def _plan(self, growth: _Growth) -> dict[int, int]:
        """Reserve CPUs for a job and return their number by node.

        The job first takes nodes where it already has CPUs, those with most first; then the
        node that fits most tightly. If it fits on none, it takes the emptiest and repeats.
        """
        plan: dict[int, int] = {}
        more = growth.more
        if growth.kept:
            held = Counter(self._layout.node[cpu] for cpu in growth.kept)
            for node in sorted(held, key=lambda node: (-held[node], node)):
                more -= self._reserve(plan, node, more)
        while more:
            more -= self._reserve(plan, self._node_for(more), more)
        return plan

    def _node_for(self, more: int) -> int:
        """Return the node that fits most tightly, or else the one with most CPUs left."""
        most = min(more, self._order[-1][0])
        return self._order[bisect_left(self._order, (most, -1))][1]

    def _reserve(self, plan: dict[int, int], node: int, more: int) -> int:
        count = min(more, self._left.get(node, 0))
        if count:
            left = self._left[node]
            del self._order[bisect_left(self._order, (left, node))]
            insort(self._order, (left - count, node))
            self._left[node] = left - count
            plan[node] = count
        return count

    def _complete(self, growth: _Growth, plan: dict[int, int]) -> list[int]:
        taken: list[int] = []
        for core in self._layout.by_core(growth.kept):
            for node, more in plan.items():
                if more and core in self._parts[node]:
                    part = self._cut(node, core, more)
                    plan[node] -= len(part)
                    taken += part
        return taken

    def _take_whole(self, node: int, more: int) -> list[int]:
        taken: list[int] = []
        for size in self._sizes:
            if size <= more:
                stack = self._whole[node].get(size, [])
                while stack and size <= more - len(taken):
                    taken += stack.pop()
        return taken

    def _take_parts(self, node: int, more: int) -> list[int]:
        taken: list[int] = []
        whole, parts = self._whole[node], self._parts[node]
        while len(taken) < more:
            for size in reversed(self._sizes):
                if whole.get(size):
                    cpus = whole[size].pop()
                    core = self._core[cpus[0]]
                    parts[core] = cpus
                    break
            else:
                core = next(reversed(parts))
            taken += self._cut(node, core, more - len(taken))
        return taken

    def _cut(self, node: int, core: int, most: int) -> list[int]:
        cpus = self._parts[node].pop(core)
        if len(cpus) > most:
            self._parts[node][core] = cpus[most:]
        return cpus[:most]
