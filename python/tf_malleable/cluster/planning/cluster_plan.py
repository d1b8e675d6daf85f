# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Planner's result: the members that each training is to have, and why."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from tf_malleable.cluster.planning.cluster_job import ServerAt, WorkerAt
from tf_malleable.elastic.membership.worker_count import Sizing

# Named like reasons of Kubernetes conditions.
Reason = Literal[
    "Granted",
    "Shared",
    "Admitted",
    "Settling",
    "Draining",
    "Suspended",
    "Paused",
    "TooLarge",
    "WaitingForCpus",
    "WaitingForMemory",
    "WaitingForPods",
    "WaitingForQuota",
    "WaitingForAllowedNodes",
    "WaitingForAdmission",
]


@dataclass(frozen=True)
class JobPlan:
    """Members that a training is to have.

    Attributes:
        workers: Workers. Those with a pod stay on their nodes, with the CPUs given here; those
            without are to be created. A pod that is missing here is to leave.
        servers: Parameter servers, likewise.
        reason: Reason for these members, in one word.
            ``Granted``: the training has all that it can use. ``Shared``: it shares with others.
            ``Admitted``: it has as much as was admitted. ``Settling``: more members are due once
            they have been wanted for some seconds. ``Draining``: it has members on nodes that they
            cannot leave, for lack of capacity elsewhere. With any other reason it has no members,
            except that it may keep its last workers with ``WaitingForCpus``. ``TooLarge``: it never
            fits into this cluster. ``Paused``: it lets others go first.
        why: The reason for people, in a short sentence.
        sizing: Sizing for the next plan, as ClusterJob.sizing.
        requested: CPUs that the training requests to be admitted, including those of servers; None
            if it requests nothing.
    """

    workers: tuple[WorkerAt, ...] = ()
    servers: tuple[ServerAt, ...] = ()
    reason: Reason = "WaitingForCpus"
    why: str = ""
    sizing: Sizing | None = None
    requested: int | None = None

    @property
    def cpus(self) -> int:
        """CPUs of the workers together."""
        return sum(worker.cpus for worker in self.workers)


@dataclass(frozen=True)
class ClusterPlan:
    """Plan of all trainings.

    Attributes:
        jobs: Plan of each given training, by id.
        review_at: Time to plan again if nothing happens before; None for no such time.
    """

    jobs: Mapping[str, JobPlan]
    review_at: float | None = None
