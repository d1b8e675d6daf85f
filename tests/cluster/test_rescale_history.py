# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""The changes that a status tells: with their CPUs, each once, the last ones."""

from __future__ import annotations

from tf_malleable.cluster.observe.rescale_history import RESIZED, recount
from tf_malleable.elastic.membership.rescale_ledger import Rescale


def told(number: int, before: int, after: int, pause: float | None = 0.05) -> Rescale:
    return Rescale(number, 100.0 + number, before, after, 0, 0, pause, "join")


def amount(workers: int, cpus: float):
    return {"workers": workers, "cpus": cpus}


def status(rescales, workers: int, cpus: float):
    return {"rescales": rescales, "actual": amount(workers, cpus)}


def sizes(changes):
    return [(one["reason"], one["from"], one["to"]) for one in changes]


def test_cpus_are_noted_when_a_change_is_heard_of():
    first = recount([told(1, 0, 1)], {}, amount(1, 2), 101)
    assert sizes(first) == [("join", amount(0, 0), amount(1, 2))]
    second = recount([told(1, 0, 1), told(2, 1, 2)], status(first, 1, 2), amount(2, 4), 102)
    assert sizes(second)[1:] == [("join", amount(1, 2), amount(2, 4))]
    # And remain, whatever the CPUs are later; the pause becomes known later.
    later = recount([told(1, 0, 1), told(2, 1, 2, 0.2)], status(second, 2, 4), amount(2, 4), 110)
    assert sizes(later) == sizes(second)
    assert later[1]["pauseSeconds"] == 0.2


def test_cpus_that_were_not_seen_are_not_made_up():
    (first, second, _) = recount(
        [told(1, 0, 1), told(2, 1, 2), told(3, 2, 3)], {}, amount(3, 6), 104
    )
    assert "cpus" not in first["to"]
    assert "cpus" not in second["from"]


def test_cpus_of_the_last_change_may_be_seen_later():
    first = recount([told(1, 0, 1)], {}, amount(0, 0), 101)
    second = recount([told(1, 0, 1)], status(first, 0, 0), amount(1, 2), 102)
    assert sizes(second) == [("join", amount(0, 0), amount(1, 2))]


def test_a_change_of_cpus_alone_is_one_and_those_together_are_one():
    first = recount([told(1, 0, 2)], {}, amount(2, 2), 101)
    second = recount([told(1, 0, 2)], status(first, 2, 2), amount(2, 3), 110)
    assert sizes(second)[1:] == [(RESIZED, amount(2, 2), amount(2, 3))]
    third = recount([told(1, 0, 2)], status(second, 2, 3), amount(2, 4), 111)
    assert sizes(third)[1:] == [(RESIZED, amount(2, 2), amount(2, 4))]
    fourth = recount([], status(third, 2, 4), amount(2, 2), 130)
    assert sizes(fourth)[2:] == [(RESIZED, amount(2, 4), amount(2, 2))]
    assert recount([], status(fourth, 2, 2), amount(2, 2), 131) == fourth


def test_workers_that_went_are_no_change_of_cpus():
    first = recount([told(1, 0, 2)], {}, amount(2, 4), 101)
    assert recount([told(1, 0, 2)], status(first, 2, 4), amount(1, 2), 120) == first


def test_only_the_last_changes_are_kept():
    many = [told(number, number % 2, 1 - number % 2) for number in range(60)]
    found = recount(many, {}, amount(1, 1), 200)
    assert len(found) == 20
    assert found == sorted(found, key=lambda one: one["at"])
