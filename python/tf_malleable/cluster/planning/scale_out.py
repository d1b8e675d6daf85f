# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Scale-out: nodes for workers that a training is to have besides those that stay.

More workers need a rescale. They are worth it only if the present workers cannot have what the
training is to get; and then as few as nearly can.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tf_malleable.cluster.planning.capacity import CapacityLedger, Space
from tf_malleable.cluster.planning.job_assignment import JobAssignment, Seat, even, resized
from tf_malleable.cluster.planning.job_sizes import WORTH
from tf_malleable.cluster.planning.migration import move
from tf_malleable.cluster.planning.node_selection import NodeSelector
from tf_malleable.elastic.membership.worker_count import Patience, Sizing


@dataclass(frozen=True)
class Offer:
    """Workers that a training could have.

    Attributes:
        workers: Number of all workers.
        each: CPUs of each new worker.
        cpus: CPUs of all workers together.
        new: Node and CPUs of each new worker, if the CPUs are not all equal; otherwise empty.
        is_stretched: True if the workers that stay need all CPUs that they can have, not only
            their shares.
    """

    workers: int
    each: int
    cpus: int
    new: Sequence[tuple[Space, int]] = ()
    is_stretched: bool = False


def hire(crew: JobAssignment, ledger: CapacityLedger, now: float, patience: Patience) -> None:
    """Add the workers that a training is to have.

    Args:
        crew: The training, with the workers that stay.
        ledger: Free capacity.
        now: Current time, in seconds.
        patience: Times for which more workers must be wanted.
    """
    job = crew.job
    before = crew.sizing.workers
    reach = _reach(crew)
    offer = _choice(crew, ledger, reach)
    is_urgent = before < job.workers.least or not (crew.seats or crew.leaving)
    if offer is not None and offer.workers > before and not is_urgent:
        faster = max(WORTH, offer.cpus / max(1, sum(reach)))
        if crew.sizes.seconds_left * (1.0 - 1.0 / faster) <= job.rescale_seconds:
            offer = None
    if offer is not None:
        if offer.workers > before:
            now_or_later = resized(crew.sizing, offer.workers, now, patience)
            crew.sizing = Sizing(offer.workers, now) if is_urgent else now_or_later
        _add(crew, ledger, offer, reach)
    else:
        moved = move(crew, ledger, reach, now, patience)
        other = crew.sizing.other
        if moved is not None:
            crew.sizing = moved
            crew.is_moving = True
        elif other is not None and other >= before:
            crew.sizing = Sizing(before, crew.sizing.changed)
    missing = job.workers.least - len(crew.seats)
    if missing > 0:
        # For these, other trainings' workers may be left with their minimum CPUs.
        least = job.workers.cpus_least
        nodes = NodeSelector(ledger, job, is_hard=True).nodes(missing, least, job.workers.memory)
        for space in nodes:
            crew.seat(ledger, Seat(space, least, least))
    crew.limit()


def _reach(crew: JobAssignment) -> list[int]:
    """Return how many CPUs each worker can have on its node while others get what they want."""
    left = {seat.space: max(0, int(seat.space.unclaimed)) for seat in crew.seats}
    found = []
    for seat in crew.seats:
        space, wanted = seat.space, seat.wanted
        if space.unclaimed < 0:
            # All workers there get shares, see placement.grow().
            part = space.cpus / (space.cpus - space.unclaimed)
            wanted = seat.least + int((seat.wanted - seat.least) * part)
        most = max(seat.least, min(seat.most, wanted + left[space]))
        left[space] -= max(0, most - wanted)
        found.append(most)
    return found


def _choice(crew: JobAssignment, ledger: CapacityLedger, reach: list[int]) -> Offer | None:
    """Return the offer that a training should take; None to keep its present workers."""
    sizes, kept, before = crew.sizes, len(crew.seats), crew.sizing.workers
    goal = max(sizes.goal(crew.granted, before), before)
    here = min(sum(reach), crew.granted - sizes.server_cpus(kept))
    is_enough = kept >= crew.job.workers.least
    if is_enough and goal <= kept and here * WORTH >= crew.granted - sizes.server_cpus(kept):
        return None
    wanted = _offer(crew, ledger, reach, goal, goal) if goal > kept else None
    if wanted is not None and wanted.cpus >= crew.granted - sizes.server_cpus(goal):
        return wanted
    offers = [] if wanted is None else [wanted]
    for workers in sizes.possible(crew.granted):
        if workers > kept and workers != goal:
            offer = _offer(crew, ledger, reach, workers, goal)
            if offer is not None:
                offers.append(offer)
                if offer.cpus >= crew.granted - sizes.server_cpus(workers):
                    break
    best = max([here if is_enough else 0, *(offer.cpus for offer in offers)])
    if wanted is not None and wanted.cpus * WORTH >= best:
        return wanted
    if is_enough and here * WORTH >= best:
        return None
    good = [offer for offer in offers if offer.cpus * WORTH >= best]
    return min(good, key=lambda offer: offer.workers) if good else None


def _offer(
    crew: JobAssignment, ledger: CapacityLedger, reach: list[int], workers: int, goal: int
) -> Offer | None:
    """Return the best offer with this number of workers; None if they do not fit."""
    sizes, more = crew.sizes, workers - len(crew.seats)
    finder = NodeSelector(ledger, crew.job)
    cpus = crew.granted - sizes.server_cpus(workers)
    least, limit = crew.job.workers.cpus_least, sizes.limit(workers)
    mine = sum(min(most, limit) for most in reach)
    each = -(-(cpus - mine) // more)
    if workers == goal:
        each = max(each, cpus // workers)
    most = max(least, min(limit, each))
    each = finder.most_cpus(more, least, most)
    if not each:
        return None
    parts = sum(min(seat.wanted, limit) for seat in crew.seats)
    offer = Offer(workers, each, min(cpus, parts + more * each))
    if offer.cpus == cpus:
        return offer
    # What the remaining workers take beyond their shares is not free for the new ones.
    _stretch(crew, ledger, reach, limit)
    each = finder.most_cpus(more, least, most)
    if each and mine + more * each > offer.cpus:
        offer = Offer(workers, each, min(cpus, mine + more * each), is_stretched=True)
    if offer.cpus < cpus and each < limit:
        new = finder.largest(more, least, limit)
        total = mine + sum(size for _, size in new)
        if len(new) == more and total > offer.cpus:
            offer = Offer(workers, each, min(cpus, total), new, is_stretched=True)
    _stretch(crew, ledger, reach, limit, sign=-1)
    return offer


def _stretch(
    crew: JobAssignment, ledger: CapacityLedger, reach: list[int], limit: int, *, sign: int = 1
) -> None:
    """Claim for workers all that they can have on their nodes, or release that if `sign` is -1."""
    for seat, most in zip(crew.seats, reach, strict=False):
        ledger.claim_more(seat.space, sign * max(0, min(most, limit) - seat.wanted))


def _add(crew: JobAssignment, ledger: CapacityLedger, offer: Offer, reach: list[int]) -> None:
    """Add the workers of an offer; those that are not due yet come last."""
    job, limit = crew.job, crew.sizes.limit(offer.workers)
    least = job.workers.cpus_least
    kept = list(crew.seats)
    if offer.is_stretched:
        _stretch(crew, ledger, reach, limit)
    new = offer.new
    if not new:
        near = {seat.space for seat in kept}
        count = offer.workers - len(kept)
        nodes = NodeSelector(ledger, job).nodes(count, offer.each, job.workers.memory, near)
        new = [(space, offer.each) for space in nodes]
    if offer.is_stretched:
        _stretch(crew, ledger, reach, limit, sign=-1)
    for space, cpus in new:
        is_due = len(crew.seats) < crew.sizing.workers
        crew.seat(ledger, Seat(space, least, limit, wanted=cpus, is_due=is_due))
    due = crew.due
    if len(due) < len(crew.seats):
        crew.promised = offer.cpus
    if due == kept:
        return  # Until the others join, the present workers keep what they can have.
    most = [min(each, limit) for each in reach]
    most += [seat.wanted for seat in due[len(kept) :]]
    goal = crew.granted - crew.sizes.server_cpus(len(crew.seats))
    for seat, wanted in zip(due, even(goal, due, most), strict=True):
        ledger.claim_more(seat.space, wanted - seat.wanted)
        seat.wanted = wanted
