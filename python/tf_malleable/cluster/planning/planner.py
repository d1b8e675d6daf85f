# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Plans all trainings of a cluster: the policy says with how many CPUs, the rest says where.

Nodes are to the policy what NUMA nodes are on one host. More CPUs for the same workers cost no
pause, so that goes before more workers; and workers stay where they are.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Final

from tf_malleable.cluster.planning.cluster_job import ClusterJob
from tf_malleable.cluster.planning.cluster_plan import ClusterPlan
from tf_malleable.cluster.planning.room import NamespaceQuota, Room
from tf_malleable.elastic.sizing import Patience
from tf_malleable.policies.policy import Policy

_NO_QUOTAS: Final[Mapping[str, NamespaceQuota]] = MappingProxyType({})


def plan(
    jobs: Sequence[ClusterJob],
    rooms: Sequence[Room],
    now: float,
    policy: Policy,
    *,
    quotas: Mapping[str, NamespaceQuota] = _NO_QUOTAS,
    patience: Patience = Patience(),  # noqa: B008
) -> ClusterPlan:
    """Return which members each training is to have from now on.

    Deterministic, and without memory: what it must remember is in JobPlan.sizing. No node gets more
    than its room, no namespace more than its quota, no training members outside its bounds.

    Args:
        jobs: All trainings that have not ended, in order of arrival.
        rooms: All nodes that a member may be or is on. A node that is missing is gone.
        now: The time in seconds, on the same clock as the jobs' times.
        policy: Shares out the CPUs, as on one host.
        quotas: By namespace; one that is missing has none.
        patience: How long more or fewer workers must be wanted before that is carried out. Where
            others wait for what a training gives up, that is at once.
    """
    raise NotImplementedError
