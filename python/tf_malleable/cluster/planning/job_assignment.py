# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""The members of one training while a plan is made."""

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
    """A worker.

    Attributes:
        space: The node it is on.
        least: The fewest CPUs that it has.
        most: The most.
        had: CPUs that it has at present; 0 if it has no pod.
        pod: Its pod; None if that is yet to be made.
        cpus_limit: As in WorkerAt.
        wanted: CPUs that are claimed for it.
        cpus: CPUs that it gets.
        is_due: It is to be made now; if not, later.
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
    """The members of a training.

    Attributes:
        sizes: The training's sizes.
        job: The training.
        granted: CPUs that the policy gives it, servers included; 0 for none.
        sizing: How many workers there are to be.
        seats: Its workers.
        leaving: Those of its workers that are on nodes they leave.
        servers: The node and pod of each of its servers.
        is_stuck: It must keep workers, although the policy or the nodes leave too little for it.
        is_moving: Workers are replaced elsewhere, now or soon, so that it gets what is granted.
        promised: CPUs that its workers will have once all are due.
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
        """CPUs of its servers, rounded up."""
        return ceil(len(self.servers) * self.job.servers.cpus - ROUNDING) if self.servers else 0

    @property
    def is_precious(self) -> bool:
        """Whether it would lose its state with its last worker."""
        return bool(self.job.placed) and not self.job.keeps_state

    @property
    def got(self) -> int:
        """CPUs that it gets, those of servers included, or will have once all workers are due."""
        due = self.due
        if self.is_moving:
            return self.granted
        if len(due) < len(self.seats):
            # Else it would ask for more as long as it waits, and for less once they have come.
            return min(self.granted, self.promised + self.sizes.server_cpus(len(self.seats)))
        return sum(seat.cpus for seat in due) + self.server_cpus

    @property
    def due(self) -> list[Seat]:
        """Its workers without those that are to be made later."""
        return [seat for seat in self.seats if seat.is_due]

    def seat(self, ledger: CapacityLedger, seat: Seat) -> None:
        """Add a worker."""
        seat.wanted = max(seat.wanted, seat.least)
        memory = self.job.workers.memory
        ledger.claim(seat.space, self.job.namespace, seat.least, seat.wanted, memory)
        self.seats.append(seat)

    def unseat(self, ledger: CapacityLedger, seat: Seat) -> None:
        """Take a worker away."""
        memory = self.job.workers.memory
        ledger.release(seat.space, self.job.namespace, seat.least, seat.wanted, memory)
        self.seats.remove(seat)

    def want(self, ledger: CapacityLedger, cpus: int) -> None:
        """Claim so many CPUs for its workers, as evenly as their limits and nodes allow."""
        room = [whole(seat.space.cpus) + seat.least for seat in self.seats]
        most = [min(seat.most, most) for seat, most in zip(self.seats, room, strict=True)]
        shares = even(cpus, self.seats, most)
        for seat, wanted in zip(self.seats, shares, strict=True):
            if wanted != seat.wanted:
                ledger.claim_more(seat.space, wanted - seat.wanted)
                seat.wanted = wanted

    def limit(self) -> None:
        """Set the most CPUs of its workers, now that it is known how many there are."""
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
        """Take the last server away."""
        each = self.job.servers
        space, _ = self.servers.pop()
        ledger.release(space, self.job.namespace, each.cpus, each.cpus, each.memory)

    def clear(self, ledger: CapacityLedger) -> None:
        """Take all members away."""
        for seat in list(self.seats):
            self.unseat(ledger, seat)
        while self.servers:
            self.dismiss(ledger)


def resized(sizing: Sizing, workers: int, now: float, patience: Patience) -> Sizing:
    """Return how many workers there are to be once so many are wanted.

    A number that grows while more are wanted need not be wanted anew.
    """
    other = sizing.other
    if other is not None and (other > sizing.workers) == (workers > sizing.workers):
        sizing = replace(sizing, other=workers)
    return sizing.after(workers, now, patience)


def even(cpus: int, seats: Sequence[Seat], most: Sequence[int]) -> list[int]:
    """Return the CPUs of each worker: together `cpus`, as even as limits allow.

    Of equal workers those that have more at present get more.

    Args:
        cpus: What to share out.
        seats: The workers; each gets its fewest CPUs at least.
        most: The most CPUs of each.
    """
    left = max(cpus, sum(seat.least for seat in seats))
    found = [0] * len(seats)
    # Those with the lowest limits first: what they cannot use the others get.
    order = sorted(range(len(seats)), key=lambda n: (most[n], seats[n].had, n))
    for place, n in enumerate(order):
        share = left // (len(order) - place)
        found[n] = max(seats[n].least, min(most[n], share))
        left -= found[n]
    return found
