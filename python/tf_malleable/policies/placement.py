# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Which CPUs make up a number of cores.

Policies count; this module turns counts into CPUs. A CPU that changes hands costs
both jobs their caches, so jobs keep what they have first of all. What is given up or
added is chosen so that a job has whole physical cores, on few NUMA nodes.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from typing import NamedTuple

from tf_malleable.model import Cpuset, Job, Machine

_NOTHING: Cpuset = frozenset()


def place(counts: Mapping[str, int], jobs: Sequence[Job], machine: Machine) -> dict[str, Cpuset]:
    """Return CPUs for each job that is to have any.

    A job keeps the CPUs it has, lent ones included, as far as its count allows.
    Where two jobs have the same CPU it stays with the one that started first.
    Among equally good CPUs the lowest number wins, so the result is repeatable.

    Args:
        counts: Cores by job id; a job that is not named, or has 0, gets none.
        jobs: All jobs, with what they are granted now.
        machine: The CPUs to share out.

    Raises:
        ValueError: The counts exceed the machine.
    """
    wanted = [(job, counts[job.id]) for job in first_started(jobs) if counts.get(job.id)]
    asked = sum(count for _, count in wanted)
    if asked > len(machine.cpus):
        raise ValueError(f"{asked} cores were asked of a machine that has {len(machine.cpus)}")
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
    """Return jobs in the order they first had cores, then those that never had any."""
    return sorted(jobs, key=lambda job: (job.started is None, job.started or 0.0))


class _Growth(NamedTuple):
    job: str
    kept: Cpuset
    more: int


class Layout:
    """Where a machine's CPUs are. Looked up only as far as needed: most decisions move nothing.

    Args:
        machine: The machine.
    """

    def __init__(self, machine: Machine) -> None:
        self._machine = machine

    @cached_property
    def core(self) -> dict[int, int]:
        """Physical core of each CPU."""
        return {cpu.id: cpu.core for cpu in self._machine.cpus}

    @cached_property
    def node(self) -> dict[int, int]:
        """NUMA node of each CPU."""
        return {cpu.id: cpu.node for cpu in self._machine.cpus}

    @cached_property
    def size(self) -> Counter[int]:
        """CPUs of each physical core."""
        return Counter(self.core.values())

    def by_core(self, cpus: Iterable[int]) -> dict[int, list[int]]:
        """Return CPUs by physical core, the lowest number first."""
        groups: dict[int, list[int]] = {}
        core = self.core
        for cpu in sorted(cpus):
            groups.setdefault(core[cpu], []).append(cpu)
        return groups

    def shrunk(self, cpus: Cpuset, count: int) -> Cpuset:
        """Return so many of a job's CPUs, 0 … all, leaving whole physical cores to others.

        Kept are whole cores, on the nodes it has most of; one is split only if the
        job has no part of one to keep instead.
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
    """The CPUs nobody has: by NUMA node, and whole physical cores apart from parts."""

    def __init__(self, layout: Layout, free: Iterable[int]) -> None:
        self._layout = layout
        self._sizes = sorted(set(layout.size.values()), reverse=True)
        self._left: dict[int, int] = {}
        self._chosen = (0, 0)
        # By node, then by size or core. The last one is taken first, so all of
        # these are built from high numbers to low ones.
        self._whole: dict[int, dict[int, list[list[int]]]] = defaultdict(dict)
        self._parts: dict[int, dict[int, list[int]]] = defaultdict(dict)
        for core, cpus in reversed(layout.by_core(free).items()):
            node = layout.node[cpus[0]]
            self._left[node] = self._left.get(node, 0) + len(cpus)
            if len(cpus) == layout.size[core]:
                self._whole[node].setdefault(len(cpus), []).append(cpus)
            else:
                self._parts[node][core] = cpus

    def share_out(self, growing: Iterable[_Growth]) -> dict[str, list[int]]:
        """Return the CPUs that each job gets in addition.

        Those that need many choose first. All complete the physical cores they
        have a part of, then all take whole ones, and only then are any split.
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
        """Return on which nodes the job gets how many CPUs, and reserve them.

        First where it is already, most of it first; then the node that it leaves
        least of, or, if it is too big for any, the emptiest and again.
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
        """Return the node with just enough CPUs left, or else the one with most."""
        # The one chosen last for as many is now even fuller; often it still fits.
        if more != self._chosen[0] or self._left[self._chosen[1]] < more:
            fitting = [(left, node) for node, left in self._left.items() if left >= more]
            if not fitting:
                return min((-left, node) for node, left in self._left.items())[1]
            self._chosen = (more, min(fitting)[1])
        return self._chosen[1]

    def _reserve(self, plan: dict[int, int], node: int, more: int) -> int:
        count = min(more, self._left.get(node, 0))
        if count:
            self._left[node] -= count
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
        while len(taken) < more:
            for size in reversed(self._sizes):
                if self._whole[node].get(size):
                    cpus = self._whole[node][size].pop()
                    core = self._layout.core[cpus[0]]
                    self._parts[node][core] = cpus
                    break
            else:
                core = next(reversed(self._parts[node]))
            taken += self._cut(node, core, more - len(taken))
        return taken

    def _cut(self, node: int, core: int, most: int) -> list[int]:
        cpus = self._parts[node].pop(core)
        if len(cpus) > most:
            self._parts[node][core] = cpus[most:]
        return cpus[:most]
