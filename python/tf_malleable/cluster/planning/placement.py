# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Placement: nodes for the members of all trainings, once each training's CPUs are known.

Members stay on their nodes where possible, each with its minimum CPUs at first: that leaves
capacity for new members, and no member is moved for their sake. Workers grow last, which costs no
pause.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from tf_malleable.cluster.planning.capacity import CapacityLedger, Space
from tf_malleable.cluster.planning.cluster_job import WorkerAt
from tf_malleable.cluster.planning.job_assignment import JobAssignment, Seat, even, resized
from tf_malleable.cluster.planning.job_sizes import WORTH, whole
from tf_malleable.cluster.planning.migration import move
from tf_malleable.cluster.planning.node_selection import NodeSelector
from tf_malleable.elastic.membership.worker_count import Patience, Sizing


def pack(
    crews: Sequence[JobAssignment], ledger: CapacityLedger, now: float, patience: Patience
) -> None:
    """Assign members to all trainings.

    Args:
        crews: All trainings that may have members, without any yet.
        ledger: All nodes, with nothing claimed yet.
        now: Current time, in seconds.
        patience: Times for which more or fewer workers must be wanted.
    """
    order = sorted(crews, key=_urgency)
    for crew in order:
        _keep(crew, ledger, now, patience)
    for crew in order:
        _keep_servers(crew, ledger)
    for crew in order:
        if crew.seats and crew.granted:
            _claim(crew, ledger)
    for crew in order:
        # A training that keeps its last workers may be granted less than its minimum: more would
        # exceed a quota.
        is_short = 0 < crew.granted < crew.sizes.fewest
        if crew.granted and not (is_short and ledger.purse(crew.job.namespace)):
            _scale_out(crew, ledger, now, patience)
        _staff(crew, ledger)
        _settle(crew, ledger, now)
    grow(order)


def _urgency(crew: JobAssignment) -> tuple[object, ...]:
    """Return a sort key: trainings that keep scarce capacity come first."""
    job = crew.job
    return (-job.priority, job.started is None, job.started or 0.0, job.submitted, job.id)


def _keep(crew: JobAssignment, ledger: CapacityLedger, now: float, patience: Patience) -> None:
    """Leave workers on their nodes, as many as the training is to have."""
    job, sizes = crew.job, crew.sizes
    if not (crew.granted or crew.is_precious):
        return
    staying: list[WorkerAt] = []
    for worker in job.placed:
        space = ledger.spaces.get(worker.node)
        if space is None:
            continue
        if space.takes and (job.allowed is None or worker.node in job.allowed):
            staying.append(worker)
        else:
            crew.leaving.append(_seat(crew, ledger, worker, crew.sizing.workers))
    count = job.workers.least
    if crew.granted:
        count = sizes.goal(crew.granted, crew.sizing.workers)
        if count < crew.sizing.workers:
            affordable = sizes.least(crew.sizing.workers) <= crew.granted
            sizing = resized(crew.sizing, count, now, patience)
            crew.sizing = sizing if affordable else Sizing(count, now)
            count = crew.sizing.workers
    for worker in _by_company(staying):
        if len(crew.seats) >= max(1, count):
            break
        seat = _seat(crew, ledger, worker, count)
        if seat.space.slots(seat.least, job.workers.memory, is_hard=True):
            crew.seat(ledger, seat)


def _keep_servers(crew: JobAssignment, ledger: CapacityLedger) -> None:
    """Leave servers on their nodes."""
    job = crew.job
    for server in job.placed_servers[: job.servers.most] if crew.seats else ():
        space = ledger.spaces.get(server.node)
        if space is None or not space.takes:
            continue
        if space.slots(job.servers.cpus, job.servers.memory, is_hard=True):
            crew.serve(ledger, space, server.pod)


def _staff(crew: JobAssignment, ledger: CapacityLedger) -> None:
    """Give a training the servers that belong to its workers, on the workers' nodes if possible."""
    job = crew.job
    due = len(crew.due)
    count = crew.sizes.servers(due) if due else 0
    while len(crew.servers) > count:
        crew.dismiss(ledger)
    near = {seat.space for seat in crew.seats}
    for is_hard in (False, True):
        more = count - len(crew.servers)
        if more > 0:
            finder = NodeSelector(ledger, job, is_hard=is_hard)
            for space in finder.nodes(more, job.servers.cpus, job.servers.memory, near):
                crew.serve(ledger, space, None)


def _settle(crew: JobAssignment, ledger: CapacityLedger, now: float) -> None:
    """Remove a training's members if they are too few, unless its state would be lost."""
    job, sizes = crew.job, crew.sizes
    least = job.workers.least
    is_served = bool(job.placed) or len(crew.servers) >= job.servers.least
    if not (crew.granted and len(crew.seats) >= least and is_served):
        for seat in [seat for seat in crew.seats if seat.pod is None]:
            crew.unseat(ledger, seat)
        for seat in crew.leaving:
            fits = seat.space.slots(seat.least, job.workers.memory, is_hard=True)
            if fits and len(crew.seats) < least:
                had = seat.had if seat.cpus_limit is None else min(seat.had, seat.cpus_limit)
                seat.wanted = seat.most = max(seat.least, min(had, whole(seat.space.cpus)))
                crew.seat(ledger, seat)
        runs_on = crew.is_precious or (crew.granted and len(crew.seats) >= least)
        if crew.seats and runs_on:
            crew.is_stuck = True
            if ledger.purse(job.namespace) is None:
                # The training keeps what no other one can have.
                had = sum(seat.had for seat in crew.seats)
                had += crew.server_cpus
                crew.granted = max(crew.granted, int(min(had, sizes.admitted)))
        else:
            crew.clear(ledger)
    due = len(crew.due)
    if due != crew.sizing.workers:
        is_new = not job.placed
        crew.sizing = Sizing(due, now if is_new else crew.sizing.changed)


def _claim(crew: JobAssignment, ledger: CapacityLedger) -> None:
    """Claim what the remaining workers are to get: only their part if more are to join."""
    kept = len(crew.seats)
    goal = max(kept, crew.sizes.goal(crew.granted, crew.sizing.workers))
    crew.want(ledger, (crew.granted - crew.sizes.server_cpus(goal)) * kept // goal)


def _by_company(workers: Iterable[WorkerAt]) -> list[WorkerAt]:
    """Return workers sorted by the training's CPUs on their node, most first."""
    workers = list(workers)
    held: Counter[str] = Counter()
    for worker in workers:
        held[worker.node] += worker.cpus
    return sorted(
        workers, key=lambda each: (-held[each.node], each.node, -each.cpus, each.pod or "")
    )


def _seat(crew: JobAssignment, ledger: CapacityLedger, worker: WorkerAt, workers: int) -> Seat:
    least, most = crew.job.workers.cpus_least, crew.sizes.limit(workers)
    if worker.cpus_limit is not None:
        most = max(least, min(most, worker.cpus_limit))
    space = ledger.spaces[worker.node]
    return Seat(space, least, most, worker.cpus, worker.pod, worker.cpus_limit)


def grow(crews: Sequence[JobAssignment]) -> None:
    """Set the CPUs of all workers.

    If more is wanted on a node than it has, the workers there get shares in proportion to what they
    want. What a training lacks there, its workers on other nodes get, the most urgent training
    first.
    """
    free: dict[Space, int] = {}
    wishes: dict[Space, list[Seat]] = {}
    for crew in crews:
        for seat in crew.seats:
            seat.cpus = seat.least
            if seat.space not in free:
                free[seat.space] = whole(seat.space.cpus)
            if not seat.is_due:
                free[seat.space] += seat.least
                continue
            if seat.wanted > seat.least:
                wishes.setdefault(seat.space, []).append(seat)
    for space, seats in wishes.items():
        free[space] -= _share_out(seats, free[space])
    for crew in sorted(crews, key=lambda crew: crew.is_stuck):
        due = sorted(crew.due, key=lambda seat: seat.cpus)
        # Present CPUs first: otherwise equal workers would swap their CPUs in every plan.
        _fill(crew, due, [min(seat.most, seat.had) for seat in due], free)
        _fill(crew, due, [seat.most for seat in due], free)


def _fill(
    crew: JobAssignment, seats: Sequence[Seat], most: Sequence[int], free: dict[Space, int]
) -> None:
    """Give workers the CPUs that their training lacks, one by one, each up to its `most`."""
    missing = crew.granted - crew.server_cpus - sum(seat.cpus for seat in seats)
    for seat, limit in zip(seats, most, strict=True):
        more = max(0, min(missing, limit - seat.cpus, free[seat.space]))
        seat.cpus += more
        free[seat.space] -= more
        missing -= more


def _share_out(seats: Sequence[Seat], free: int) -> int:
    """Give workers on one node what they want, or their shares of `free`; return the total."""
    wishes = [seat.wanted - seat.least for seat in seats]
    total = sum(wishes)
    if total <= free:
        for seat in seats:
            seat.cpus = seat.wanted
        return total
    given = 0
    for seat, wish in zip(seats, wishes, strict=True):
        more = wish * free // total
        seat.cpus += more
        given += more
    for seat in seats:
        if given == free:
            break
        if seat.cpus < seat.wanted:
            seat.cpus += 1
            given += 1
    return given


@dataclass(frozen=True)
class _Offer:
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


def _scale_out(crew: JobAssignment, ledger: CapacityLedger, now: float, patience: Patience) -> None:
    """Add the workers that a training is to have besides those that stay.

    More workers need a rescale. They are worth it only if the present workers cannot have what the
    training is to get; and then as few as nearly can.

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
            # All workers there get shares, see grow().
            part = space.cpus / (space.cpus - space.unclaimed)
            wanted = seat.least + int((seat.wanted - seat.least) * part)
        most = max(seat.least, min(seat.most, wanted + left[space]))
        left[space] -= max(0, most - wanted)
        found.append(most)
    return found


def _choice(crew: JobAssignment, ledger: CapacityLedger, reach: list[int]) -> _Offer | None:
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
) -> _Offer | None:
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
    offer = _Offer(workers, each, min(cpus, parts + more * each))
    if offer.cpus == cpus:
        return offer
    # What the remaining workers take beyond their shares is not free for the new ones.
    _stretch(crew, ledger, reach, limit)
    each = finder.most_cpus(more, least, most)
    if each and mine + more * each > offer.cpus:
        offer = _Offer(workers, each, min(cpus, mine + more * each), is_stretched=True)
    if offer.cpus < cpus and each < limit:
        new = finder.largest(more, least, limit)
        total = mine + sum(size for _, size in new)
        if len(new) == more and total > offer.cpus:
            offer = _Offer(workers, each, min(cpus, total), new, is_stretched=True)
    _stretch(crew, ledger, reach, limit, sign=-1)
    return offer


def _stretch(
    crew: JobAssignment, ledger: CapacityLedger, reach: list[int], limit: int, *, sign: int = 1
) -> None:
    """Claim for workers all that they can have on their nodes, or release that if `sign` is -1."""
    for seat, most in zip(crew.seats, reach, strict=False):
        ledger.claim_more(seat.space, sign * max(0, min(most, limit) - seat.wanted))


def _add(crew: JobAssignment, ledger: CapacityLedger, offer: _Offer, reach: list[int]) -> None:
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
