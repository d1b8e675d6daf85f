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
        due = sorted(crew.due, key=lambda seat: seat.cpus)
        # What they have they keep first, or equal workers would change places in every plan.
        _fill(crew, due, [min(seat.most, seat.had) for seat in due], free)
        _fill(crew, due, [seat.most for seat in due], free)


def _fill(crew: Crew, seats: Sequence[Seat], most: Sequence[int], free: dict[Space, int]) -> None:
    """Give workers what their training misses, one after the other, each up to a number of CPUs."""
    missing = crew.granted - crew.server_cpus - sum(seat.cpus for seat in seats)
    for seat, limit in zip(seats, most, strict=True):
        more = max(0, min(missing, limit - seat.cpus, free[seat.space]))
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
