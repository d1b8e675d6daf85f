# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""What a cluster has for elastic trainings."""

from __future__ import annotations

from dataclasses import dataclass
from math import inf


@dataclass(frozen=True)
class NodeCapacity:
    """A node, and what there is on it for the members of all elastic trainings together.

    That is what it can allocate less what others' pods request there. What our workers and servers
    request is not subtracted, as all of it is shared out anew; what pending pods of others need
    that would fit only here may be.

    Attributes:
        node: Its name, unique.
        cpus: CPUs; workers get whole ones. May be negative, and is then like 0.
        memory: In bytes; None for any amount.
        pods: How many members fit at most.
        ready: Members can run there. If not, those there count as lost.
        leaving: It is cordoned, drained or tainted: nothing new goes there, and members there leave
            as soon as there is room for them elsewhere.
    """

    node: str
    cpus: float
    memory: float | None = None
    pods: int = 110
    ready: bool = True
    leaving: bool = False

    @property
    def is_open(self) -> bool:
        """Whether new members may go there."""
        return self.ready and not self.leaving


@dataclass(frozen=True)
class NamespaceQuota:
    """What the members of all trainings of a namespace may request together.

    That is its ResourceQuota less what other pods of the namespace request.

    Attributes:
        cpus: In CPUs.
        memory: In bytes.
        pods: Their number.
    """

    cpus: float = inf
    memory: float = inf
    pods: float = inf
