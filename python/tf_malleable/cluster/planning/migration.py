# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Migration of workers to other nodes when they cannot get their CPUs on their present ones.

For a training with as many workers as it can use, this is the only way to more CPUs. It is a
rescale, and the new workers take some seconds to start while the old ones are gone. The gain must
therefore be large.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from tf_malleable.cluster.planning.capacity import CapacityLedger, Space
from tf_malleable.cluster.planning.job_assignment import JobAssignment, Seat, even
from tf_malleable.cluster.planning.job_sizes import WORTH
from tf_malleable.cluster.planning.node_selection import NodeSelector
from tf_malleable.elastic.membership.worker_count import Patience, Sizing

# A move must save this many times the time that its rescale takes.
_SAVED: Final = 30.0


@dataclass(frozen=True)
class Move:
    """Replacement of a worker by one on another node.

    Attributes:
        seat: The worker.
        space: Node of the replacement.
        cpus: CPUs that the replacement can have.
    """

    seat: Seat
    space: Space
    cpus: int


def move(
    crew: JobAssignment,
    ledger: CapacityLedger,
    reach: Sequence[int],
    now: float,
    patience: Patience,
) -> Sizing | None:
    """Move workers of a training if that is worth it and has been for a while.

    Args:
        crew: The training, with all workers that it is to have.
        ledger: Free capacity.
        reach: CPUs that each of its workers can have on its present node.
        now: Current time, in seconds.
        patience: Times for which the move must have been worth it.

    Returns:
        The new sizing; None if no worker is to be moved. While the patience lasts, the present
        number of workers stands in the sizing as the other number that is wanted.
    """
    moves = _moves(crew, NodeSelector(ledger, crew.job), reach)
    if not moves:
        return None
    workers, changed = crew.sizing.workers, crew.sizing.changed
    since = crew.sizing.since if crew.sizing.other == workers else now
    if now < max(since + patience.more, changed + patience.between):
        return Sizing(workers, changed, workers, since)
    most = dict(zip(crew.seats, reach, strict=True))
    for each in moves:
        old = each.seat
        crew.unseat(ledger, old)
        new = Seat(each.space, old.least, crew.sizes.limit(workers), wanted=each.cpus)
        crew.seat(ledger, new)
        most[new] = each.cpus
    goal = crew.granted - crew.sizes.server_cpus(workers)
    shares = even(goal, crew.seats, [most[seat] for seat in crew.seats])
    for seat, wanted in zip(crew.seats, shares, strict=True):
        ledger.claim_more(seat.space, wanted - seat.wanted)
        seat.wanted = wanted
    return Sizing(workers, now)


def _moves(crew: JobAssignment, finder: NodeSelector, reach: Sequence[int]) -> list[Move]:
    """Return the smallest set of moves that gives a training nearly what it is to get.

    Return none if the gain does not outweigh the rescale.
    """
    sizes, job, workers = crew.sizes, crew.job, crew.sizing.workers
    goal = crew.granted - sizes.server_cpus(workers)
    here = sum(reach)
    if not crew.seats or len(crew.seats) != workers or here * WORTH >= goal:
        return []
    mine = {seat.space for seat in crew.seats}
    found = finder.largest(2 * workers, job.workers.cpus_least, sizes.limit(workers))
    places = [(space, cpus) for space, cpus in found if space not in mine]
    moves: list[Move] = []
    total = here
    lowest = sorted(zip(reach, crew.seats, strict=True), key=lambda pair: pair[0])
    for (before, seat), (space, cpus) in zip(lowest, places, strict=False):
        if total >= goal or cpus <= before * WORTH:
            break
        moves.append(Move(seat, space, cpus))
        total += cpus - before
    if not moves:
        return []
    faster = min(total, goal) / here
    saved = sizes.seconds_left * (1.0 - 1.0 / faster)
    is_worth_it = faster >= WORTH and saved > _SAVED * job.rescale_seconds
    return moves if is_worth_it else []
