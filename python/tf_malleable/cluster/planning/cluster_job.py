# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""What the planner knows about an elastic training in a cluster."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

from tf_malleable.elastic.membership.worker_count import Sizing
from tf_malleable.model import JobState


@dataclass(frozen=True)
class WorkerBounds:
    """What workers a training may have.

    Attributes:
        least: The fewest workers.
        most: The most.
        cpus_least: The fewest CPUs of a worker; whole CPUs, like all CPUs of workers.
        cpus_most: The most.
        memory: What each requests, in bytes.

    Raises:
        ValueError: A number is below 1 or a least one is above its most.
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
    """What parameter servers a training may have.

    It has `least` with its fewest workers, `most` with its most, and in between in proportion.

    Attributes:
        least: The fewest servers; 0 for none.
        most: The most.
        cpus: What each requests; may be a fraction.
        memory: What each requests, in bytes.

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
        cpus: CPUs that it is to have.
        pod: Name of its pod; None if it is yet to be made.
        cpus_limit: Most CPUs that it can have where it is, since a resize was deferred for long or
            is infeasible; None for any number.
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
        pod: Name of its pod; None if it is yet to be made.
    """

    node: str
    pod: str | None = None


class ClusterRate(NamedTuple):
    """A measured speed of a training.

    Attributes:
        cpus: CPUs of all of its workers.
        workers: Their number.
        nodes: On how many nodes they were.
        steps_per_second: The speed.
    """

    cpus: int
    workers: int
    nodes: int
    steps_per_second: float


@dataclass(frozen=True)
class ClusterJob:
    """An elastic training. Times are in seconds on the caller's clock.

    Attributes:
        id: Unique; never reused. The object's uid will do.
        submitted: Time of arrival.
        workers: What workers it may have.
        servers: What parameter servers it may have.
        shards: Into how many each batch is cut; more workers than these have nothing to do.
        shard_cpus: CPUs that a shard can use at once; 0 for any number.
        namespace: Its namespace. Namespaces are to each other as users are on one host.
        priority: Higher goes first.
        weight: Its share relative to the other jobs' weights; above 0.
        suspended: It must not have any members.
        keeps_state: It goes on where it was after all its workers have left, because it has a
            checkpoint. Only then may a policy take all of them away.
        allowed: Names of the nodes that its pods may be on; None for any.
        avoided: Names of nodes on which its pods do not start at present: nothing new goes there.
        admitted_cpus: CPUs that all its members may request together, as Kueue has admitted them;
            None for any number.
        asks_for_more: More than that may be admitted while it runs, if it asks for it.
        state: ``"waiting"``: has never had workers. ``"running"``: has workers, be they pending.
            ``"paused"``: has lost all of them.
        since: When it entered this state.
        started: When it first had workers; None while waiting.
        resized: When its number of CPUs last changed while it ran; None if it never did.
        run_seconds: Total time with workers, up to now.
        steps_done: Steps done; None if it reports none.
        steps_total: Steps at its end; None if unknown.
        rates: Measured speeds, at most one for each of numbers of CPUs, workers and nodes.
        expected_seconds: Expected total run time; None if unknown.
        placed: The workers it has, pending ones included, those that are leaving not. A worker
            that is gone with its node may be left in: it is then replaced.
        placed_servers: The servers it has, likewise.
        rescale_seconds: How long a change of its members stops it. None is made that saves less.
        sizing: From its last JobPlan; None at first and after a restart of the operator.
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
        """CPUs of the workers it has."""
        return sum(worker.cpus for worker in self.placed)
