# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""A training as the planner sees it: its bounds and present members, and those that it plans."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

from tf_malleable.elastic.membership.worker_count import Sizing
from tf_malleable.model import JobState


@dataclass(frozen=True)
class WorkerBounds:
    """Bounds of a training's workers.

    Attributes:
        least: Minimum number of workers.
        most: Maximum number of workers.
        cpus_least: Minimum CPUs of a worker; whole CPUs, like all CPUs of workers.
        cpus_most: Maximum CPUs of a worker.
        memory: Memory that each worker requests, in bytes.

    Raises:
        ValueError: A number is below 1 or a minimum is above its maximum.
    """

    least: int = 1
    most: int = 1
    cpus_least: int = 1
    cpus_most: int = 1
    memory: float = 0.0

    def __post_init__(self) -> None:
        if not (1 <= self.least <= self.most and 1 <= self.cpus_least <= self.cpus_most):
            raise ValueError(f"must be 1 ≤ least ≤ most, not {self}")


@dataclass(frozen=True)
class ServerBounds:
    """Bounds of a training's parameter servers.

    A training has `least` servers with its minimum of workers, `most` with its maximum, and a
    proportional number in between.

    Attributes:
        least: Minimum number of servers; may be 0.
        most: Maximum number of servers; 0 for none.
        cpus: CPUs that each server requests; may be a fraction.
        memory: Memory that each server requests, in bytes.

    Raises:
        ValueError: The numbers are not in this order, or `cpus` is not positive.
    """

    least: int = 0
    most: int = 0
    cpus: float = 1.0
    memory: float = 0.0

    def __post_init__(self) -> None:
        if not (0 <= self.least <= self.most and self.cpus > 0):
            raise ValueError(f"must be 0 ≤ least ≤ most and cpus > 0, not {self}")


@dataclass(frozen=True)
class WorkerAt:
    """A worker on a node.

    Attributes:
        node: Name of the node.
        cpus: CPUs that the worker is to have.
        pod: Name of the worker's pod; None if it is yet to be created.
        cpus_limit: Maximum CPUs that the worker can have on its node, because a resize was deferred
            for too long or is infeasible; None for no limit.
    """

    node: str
    cpus: int
    pod: str | None = None
    cpus_limit: int | None = None


@dataclass(frozen=True)
class ServerAt:
    """A parameter server on a node.

    Attributes:
        node: Name of the node.
        pod: Name of the server's pod; None if it is yet to be created.
    """

    node: str
    pod: str | None = None


class ClusterRate(NamedTuple):
    """A measured speed of a training.

    Attributes:
        cpus: CPUs of all workers together.
        workers: Number of workers.
        nodes: Number of nodes that they were on.
        steps_per_second: Speed in steps per second.
    """

    cpus: int
    workers: int
    nodes: int
    steps_per_second: float


@dataclass(frozen=True)
class ClusterJob:
    """An elastic training. Times are in seconds on the caller's clock.

    Attributes:
        id: Unique identifier, never reused, such as the object's uid.
        submitted: Time of arrival.
        workers: Bounds of the workers.
        servers: Bounds of the parameter servers.
        shards: Number of shards that each batch is cut into; workers beyond this number would
            have nothing to do.
        shard_cpus: CPUs that a shard can use at once; 0 for any number.
        namespace: Namespace of the job. The policy sees namespaces as it sees users on one host.
        priority: Priority; a higher one goes first.
        weight: Share relative to the other jobs' weights; above 0.
        suspended: True if the job must not have any members.
        keeps_state: True if the training resumes after all its workers have left, because it has a
            checkpoint. Only then may a policy take all of them away.
        allowed: Names of the nodes that the job's pods may run on; None for any.
        avoided: Names of the nodes on which the job's pods do not start at present: nothing new
            goes there.
        admitted_cpus: CPUs that all members may request together, as admitted by Kueue; None for
            any number.
        asks_for_more: True if more CPUs may be admitted while the job runs, on request.
        state: ``"waiting"``: has never had workers. ``"running"``: has workers, possibly pending.
            ``"paused"``: has lost all of them.
        since: Time of the change to this state.
        started: Time at which it first had workers; None while waiting.
        resized: Time of the last change of its CPUs while it ran; None if there was none.
        run_seconds: Total time with workers until now, in seconds.
        steps_done: Number of steps done; None if unknown.
        steps_total: Number of steps at the end; None if unknown.
        rates: Measured speeds, at most one for each combination of CPUs, workers and nodes.
        expected_seconds: Expected total run time, in seconds; None if unknown.
        placed: Present workers, including pending ones, without those that are leaving. A worker
            lost with its node may be included: it is then replaced.
        placed_servers: Present servers, likewise.
        rescale_seconds: Time for which a change of members stops the training, in seconds. A
            change that saves less time is not made.
        sizing: Sizing from the last JobPlan; None at first and after a restart of the operator.
    """

    id: str
    submitted: float
    workers: WorkerBounds = field(default_factory=WorkerBounds)
    servers: ServerBounds = field(default_factory=ServerBounds)
    shards: int = 1
    shard_cpus: int = 1
    namespace: str = "default"
    priority: int = 0
    weight: float = 1.0
    suspended: bool = False
    keeps_state: bool = False
    allowed: frozenset[str] | None = None
    avoided: frozenset[str] = frozenset()
    admitted_cpus: float | None = None
    asks_for_more: bool = False
    state: JobState = "waiting"
    since: float = 0.0
    started: float | None = None
    resized: float | None = None
    run_seconds: float = 0.0
    steps_done: float | None = None
    steps_total: float | None = None
    rates: tuple[ClusterRate, ...] = ()
    expected_seconds: float | None = None
    placed: tuple[WorkerAt, ...] = ()
    placed_servers: tuple[ServerAt, ...] = ()
    rescale_seconds: float = 1.0
    sizing: Sizing | None = None

    @property
    def cpus(self) -> int:
        """CPUs of the present workers together."""
        return sum(worker.cpus for worker in self.placed)


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
    "PodsRefused",
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
            fits into this cluster. ``Paused``: it lets others go first. ``PodsRefused``: the API
            server refuses its pods.
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
