# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Job assignment: the members of one training during planning."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import ceil

from tf_malleable.cluster.planning.capacity import CapacityLedger, Space
from tf_malleable.cluster.planning.cluster_job import ClusterJob
from tf_malleable.cluster.planning.job_sizes import ROUNDING, Sizes, whole
from tf_malleable.elastic.membership.worker_count import Patience, Sizing


@dataclass(eq=False)
class Seat:
    """A worker, assigned to a node.

    Attributes:
        space: Node of the worker.
        least: Minimum CPUs of the worker.
        most: Maximum CPUs of the worker.
        had: CPUs that the worker has at present; 0 if it has no pod.
        pod: Name of the worker's pod; None if it is yet to be created.
        cpus_limit: As in WorkerAt.
        wanted: CPUs that are claimed for the worker.
        cpus: CPUs that the worker gets.
        is_due: True if the worker is to be present now; False if it is to be created later.
    """

    space: Space
    least: int
    most: int
    had: int = 0
    pod: str | None = None
    cpus_limit: int | None = None
    wanted: int = 0
    cpus: int = 0
    is_due: bool = True


class JobAssignment:
    """Members of a training.

    Attributes:
        sizes: Sizes that the training can have.
        job: The training.
        granted: CPUs that the policy grants, including those of servers; 0 for none.
        sizing: Number of workers that the training is to have.
        seats: Workers of the training.
        leaving: Present workers on nodes that they are to leave.
        servers: Node and pod's name of each server; None for a pod that is yet to be created.
        is_stuck: True if the training must keep workers although the policy or the nodes leave too
            little for it.
        is_moving: True if workers are replaced on other nodes, now or soon, so that the training
            gets what is granted.
        promised: CPUs that the workers will have once all are due.
    """

    def __init__(self, sizes: Sizes, granted: int, sizing: Sizing) -> None:
        self.sizes = sizes
        self.job: ClusterJob = sizes.job
        self.granted = granted
        self.sizing = sizing
        self.seats: list[Seat] = []
        self.leaving: list[Seat] = []
        self.servers: list[tuple[Space, str | None]] = []
        self.is_stuck = False
        self.is_moving = False
        self.promised = 0

    @property
    def server_cpus(self) -> int:
        """CPUs of the servers together, rounded up."""
        return ceil(len(self.servers) * self.job.servers.cpus - ROUNDING) if self.servers else 0

    @property
    def is_precious(self) -> bool:
        """Whether the training would lose its state with its last worker."""
        return bool(self.job.placed) and not self.job.keeps_state

    @property
    def got(self) -> int:
        """CPUs that it gets, including servers', or will have once all workers are due."""
        due = self.due
        if self.is_moving:
            return self.granted
        if len(due) < len(self.seats):
            # Otherwise it would ask for more while it waits, and for less once they have joined.
            return min(self.granted, self.promised + self.sizes.server_cpus(len(self.seats)))
        return sum(seat.cpus for seat in due) + self.server_cpus

    @property
    def due(self) -> list[Seat]:
        """Workers without those that are to be created later."""
        return [seat for seat in self.seats if seat.is_due]

    def seat(self, ledger: CapacityLedger, seat: Seat) -> None:
        """Add a worker."""
        seat.wanted = max(seat.wanted, seat.least)
        memory = self.job.workers.memory
        ledger.claim(seat.space, self.job.namespace, seat.least, seat.wanted, memory)
        self.seats.append(seat)

    def unseat(self, ledger: CapacityLedger, seat: Seat) -> None:
        """Remove a worker."""
        memory = self.job.workers.memory
        ledger.release(seat.space, self.job.namespace, seat.least, seat.wanted, memory)
        self.seats.remove(seat)

    def want(self, ledger: CapacityLedger, cpus: int) -> None:
        """Claim this many CPUs for the workers, as evenly as their limits and nodes allow."""
        room = [whole(seat.space.cpus) + seat.least for seat in self.seats]
        most = [min(seat.most, most) for seat, most in zip(self.seats, room, strict=True)]
        shares = even(cpus, self.seats, most)
        for seat, wanted in zip(self.seats, shares, strict=True):
            if wanted != seat.wanted:
                ledger.claim_more(seat.space, wanted - seat.wanted)
                seat.wanted = wanted

    def limit(self) -> None:
        """Set the maximum CPUs of the workers from their number, once it is known."""
        most = self.sizes.limit(len(self.seats))
        for seat in self.seats:
            seat.most = most if seat.cpus_limit is None else min(most, seat.cpus_limit)
            seat.most = max(seat.least, seat.most)

    def serve(self, ledger: CapacityLedger, space: Space, pod: str | None) -> None:
        """Add a server."""
        each = self.job.servers
        ledger.claim(space, self.job.namespace, each.cpus, each.cpus, each.memory)
        self.servers.append((space, pod))

    def dismiss(self, ledger: CapacityLedger) -> None:
        """Remove the last server."""
        each = self.job.servers
        space, _ = self.servers.pop()
        ledger.release(space, self.job.namespace, each.cpus, each.cpus, each.memory)

    def clear(self, ledger: CapacityLedger) -> None:
        """Remove all members."""
        for seat in list(self.seats):
            self.unseat(ledger, seat)
        while self.servers:
            self.dismiss(ledger)


def resized(sizing: Sizing, workers: int, now: float, patience: Patience) -> Sizing:
    """Return the sizing after a decision that wants this number of workers.

    If another number in the same direction was wanted before, the time since then counts.
    """
    other = sizing.other
    if other is not None and (other > sizing.workers) == (workers > sizing.workers):
        sizing = replace(sizing, other=workers)
    return sizing.after(workers, now, patience)


def even(cpus: int, seats: Sequence[Seat], most: Sequence[int]) -> list[int]:
    """Return the CPUs of each worker: together `cpus`, as even as limits allow.

    Of equal workers, those that have more at present get more.

    Args:
        cpus: CPUs to share out.
        seats: Workers; each gets at least its minimum.
        most: Maximum CPUs of each worker.
    """
    left = max(cpus, sum(seat.least for seat in seats))
    found = [0] * len(seats)
    # Those with the lowest limits first: the others get what they cannot use.
    order = sorted(range(len(seats)), key=lambda n: (most[n], seats[n].had, n))
    for place, n in enumerate(order):
        share = left // (len(order) - place)
        found[n] = max(seats[n].least, min(most[n], share))
        left -= found[n]
    return found
