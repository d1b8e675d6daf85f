# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Machine: the CPUs to divide among jobs, and their topology."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

from tf_malleable.model.cpuset import Cpuset
from tf_malleable.model.power import AreaLimit, PowerLimit


@dataclass(frozen=True)
class Cpu:
    """One CPU of the operating system, that is, one hardware thread.

    Attributes:
        id: Number of the CPU in the operating system.
        core: Number of the physical core, unique on the machine. CPUs with the
            same core are SMT siblings.
        node: Number of the NUMA node.
    """

    id: int
    core: int
    node: int = 0


@dataclass(frozen=True)
class Machine:
    """The CPUs that a policy divides among jobs. May be empty; ids are unique.

    Attributes:
        cpus: CPUs of the machine.
        power: Power limit of the host; None for no limit. Only ``budget+`` uses it.
        areas: Power limits of areas, at most one for each. Only ``budget+`` uses them.
        preempts: Whether the kernel lets a job preempt those to which it lends a CPU, so that it
            may go on using that CPU.
    """

    cpus: tuple[Cpu, ...]
    power: PowerLimit | None = None
    areas: tuple[AreaLimit, ...] = ()
    preempts: bool = False

    @cached_property
    def cpuset(self) -> Cpuset:
        """The numbers of the machine's CPUs."""
        return frozenset(cpu.id for cpu in self.cpus)

    @cached_property
    def core_of(self) -> Mapping[int, int]:
        """The physical core of each CPU."""
        return {cpu.id: cpu.core for cpu in self.cpus}

    @cached_property
    def node_of(self) -> Mapping[int, int]:
        """The NUMA node of each CPU."""
        return {cpu.id: cpu.node for cpu in self.cpus}

    @cached_property
    def core_sizes(self) -> Mapping[int, int]:
        """The number of CPUs of each physical core."""
        return Counter(self.core_of.values())

    def without(self, cpus: Cpuset) -> Machine:
        """Return the machine without these CPUs."""
        left = tuple(cpu for cpu in self.cpus if cpu.id not in cpus)
        return Machine(left, self.power, self.areas, self.preempts)

    @classmethod
    def flat(cls, cpus: int) -> Machine:
        """Return a machine with this many CPUs, each on a core of its own, on one NUMA node."""
        return cls(tuple(Cpu(id=number, core=number) for number in range(cpus)))

    @classmethod
    def regular(cls, cpus: int, nodes: int = 1, siblings: int = 1) -> Machine:
        """Return a machine with identical cores and identical NUMA nodes.

        Siblings are numbered far apart, as on Linux.

        Args:
            cpus: Number of CPUs.
            nodes: Number of NUMA nodes.
            siblings: Number of CPUs per physical core.

        Raises:
            ValueError: The CPUs cannot be divided evenly into these cores and nodes.
        """
        cores = cpus // siblings
        if cores * siblings != cpus or cores % nodes:
            raise ValueError(
                f"{cpus} CPUs are not divisible into {nodes} nodes of cores with {siblings} CPUs"
            )
        return cls(
            tuple(
                Cpu(id=cpu, core=cpu % cores, node=(cpu % cores) * nodes // cores)
                for cpu in range(cpus)
            )
        )
