# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""What the planner decides."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from tf_malleable.cluster.planning.cluster_job import ServerAt, WorkerAt
from tf_malleable.elastic.membership.worker_count import Sizing

# Names as in a condition of an object of Kubernetes.
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
    """What members a training is to have.

    Attributes:
        workers: Its workers. Those with a pod stay where they are, with the CPUs given here; those
            without are to be made. A pod that is missing here is to leave.
        servers: Its parameter servers, likewise.
        reason: Why it has these, in one word.
            ``Granted``: all it can use. ``Shared``: with others. ``Admitted``: as much as was
            admitted. ``Settling``: more members are due once they have been wanted for some
            seconds. ``Draining``: it has members on nodes that they cannot leave, for lack of room.
            The others have no members: ``TooLarge`` never fits into this cluster, ``Paused`` lets
            others go first.
        why: The same for people, in a short sentence.
        sizing: To be given to the next plan as ClusterJob.sizing.
        requested: CPUs that it asks to be admitted, those of servers included; None if it asks for
            nothing.
    """

    workers: tuple[WorkerAt, ...] = ()
    servers: tuple[ServerAt, ...] = ()
    reason: Reason = "WaitingForCpus"
    why: str = ""
    sizing: Sizing | None = None
    requested: int | None = None

    @property
    def cpus(self) -> int:
        """CPUs of its workers."""
        return sum(worker.cpus for worker in self.workers)


@dataclass(frozen=True)
class ClusterPlan:
    """The plan of all trainings.

    Attributes:
        jobs: By id; every training that was given is in it.
        review_at: When to plan again if nothing happens before; None for no such time.
    """

    jobs: Mapping[str, JobPlan]
    review_at: float | None = None
