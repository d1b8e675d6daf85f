# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Capacity that a cluster has for elastic trainings: nodes and namespace quotas."""

from __future__ import annotations

from dataclasses import dataclass
from math import inf


@dataclass(frozen=True)
class NodeCapacity:
    """Capacity of a node for the members of all elastic trainings together.

    It is the node's allocatable amount less the requests of other pods there. The requests of
    trainings' workers and servers are not subtracted, as all of that is shared out anew. The
    requests of others' pending pods that would fit only there may be subtracted.

    Attributes:
        node: Unique name of the node.
        cpus: CPUs; workers get whole ones. A negative number counts as 0.
        memory: Memory, in bytes; None for any amount.
        pods: Maximum number of members.
        ready: True if members can run there. If not, members there count as lost.
        leaving: True if the node is cordoned, drained or tainted: nothing new goes there, and
            members there leave as soon as there is capacity for them elsewhere.
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
    """Quota of a namespace for the members of all its trainings together.

    It is the namespace's ResourceQuota less the requests of its other pods.

    Attributes:
        cpus: CPUs.
        memory: Memory, in bytes.
        pods: Number of pods.
    """

    cpus: float = inf
    memory: float = inf
    pods: float = inf
