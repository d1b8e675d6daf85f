# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Gives workers the CPUs that they are to get, as far as their nodes have them. Costs no pause."""

from __future__ import annotations

from collections.abc import Sequence

from tf_malleable.cluster.planning.crew import Crew, Seat
from tf_malleable.cluster.planning.ledger import Space
from tf_malleable.cluster.planning.sizes import whole


def grow(crews: Sequence[Crew]) -> None:
    """Set the CPUs of all workers.

    Where all that is wanted on a node is too much, those there get in proportion to what they want;
    what a training misses there, its workers on other nodes get, the most urgent training first.
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
        due = crew.due
        missing = crew.granted - crew.server_cpus - sum(seat.cpus for seat in due)
        for seat in sorted(due, key=lambda seat: seat.cpus) if missing > 0 else ():
            if missing <= 0:
                break
            more = max(0, min(missing, seat.most - seat.cpus, free[seat.space]))
            seat.cpus += more
            free[seat.space] -= more
            missing -= more


def _share_out(seats: Sequence[Seat], free: int) -> int:
    """Give workers on one node what they want, or their parts of what is free; return how much."""
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
