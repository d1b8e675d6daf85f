# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""CPU topology of this host: CPUs, their cores and NUMA nodes, from /sys."""

from __future__ import annotations

import os
from pathlib import Path

from tf_malleable.model import Cpu, Cpuset, Machine, format_cpuset

_CPUS = Path("/sys/devices/system/cpu")


def machine(cpus: Cpuset | None = None) -> Machine:
    """Return the machine with these CPUs; None for all that this process may use.

    Raises:
        ValueError: The set is empty or has a CPU that this process may not use.
    """
    allowed = frozenset(os.sched_getaffinity(0))
    wanted = allowed if cpus is None else cpus
    if not wanted or not wanted <= allowed:
        raise ValueError(
            f"CPUs must be among those this process may use, {format_cpuset(allowed)},"
            f" not {format_cpuset(wanted) or 'none'}"
        )
    return _machine(wanted)


def _machine(wanted: Cpuset) -> Machine:
    cores: dict[str, int] = {}
    return Machine(
        tuple(
            Cpu(id=cpu, core=cores.setdefault(_siblings(cpu), len(cores)), node=_node(cpu))
            for cpu in sorted(wanted)
        )
    )


def present(wanted: Cpuset | None, allowed: Cpuset, most: float) -> Machine:
    """Return those of the CPUs to share out that may be used now; possibly none.

    Args:
        wanted: CPUs to share out; None for all.
        allowed: CPUs that this process may use.
        most: Number of CPUs that cgroups allow, a quota included; fractions are cut off.
    """
    cpus = sorted(allowed if wanted is None else wanted & allowed)
    return _machine(frozenset(cpus[: max(1, int(most))]))


def _siblings(cpu: int) -> str:
    """Return a text that identifies the physical core of a CPU."""
    try:
        return (_CPUS / f"cpu{cpu}/topology/thread_siblings_list").read_text().strip()
    except OSError:
        return str(cpu)  # Hidden in some containers and virtual machines.


def _node(cpu: int) -> int:
    for entry in (_CPUS / f"cpu{cpu}").glob("node[0-9]*"):
        return int(entry.name.removeprefix("node"))
    return 0
