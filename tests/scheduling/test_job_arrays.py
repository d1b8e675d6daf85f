# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""How many jobs of an array run at once, and what they learn from one another."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest

from tests.support import records
from tf_malleable.scheduling.records.job_arrays import held_back
from tf_malleable.scheduling.records.job_record import Record
from tf_malleable.scheduling.records.lessons import is_same_command, is_same_program


def waits(number: int, at_once: int | None = 2, array: str | None = "a", **changes) -> Record:
    about = {"id": str(number), "array": array, "at_once": at_once, **changes}
    return replace(records.WAITING, **about)


def runs(number: int, array: str | None = "a", **changes) -> Record:
    return records.live(number, array=array, at_once=2, **changes)


def test_the_first_to_arrive_start_first():
    assert held_back(map(waits, range(1, 5))) == {"3", "4"}
    assert held_back([waits(1), runs(2), waits(3)]) == {"3"}
    assert held_back([waits(1), runs(2), runs(3)]) == {"1"}
    # A job without cores for now has started all the same.
    assert held_back([runs(1, state="paused"), runs(2), waits(3)]) == {"3"}


def test_what_is_no_part_of_the_array_does_not_count():
    others = [runs(1, array=None), runs(2, array="b"), runs(3, uid=7)]
    assert held_back([*others, waits(4), waits(5), waits(6)]) == {"6"}


def test_without_a_limit_all_may_start():
    jobs = [waits(1, array=None, at_once=None), waits(2, at_once=None), waits(3, at_once=None)]
    assert held_back(jobs) == frozenset()


@pytest.mark.parametrize("change", [{"held": True}, {"cancelled": True}])
def test_what_will_not_start_lets_the_next_one_start(change):
    assert held_back([waits(1, **change), waits(2), waits(3), waits(4)]) == {"4"}


@pytest.mark.parametrize("seed", range(20))
def test_there_are_never_more_and_never_fewer_than_there_may_be(seed):
    """Jobs end, fail and queue again; those that may start do so at once."""
    chance = random.Random(seed)
    jobs = {number: waits(number, at_once=3) for number in range(20)}
    while jobs:
        late = held_back(jobs.values())
        for number, each in jobs.items():
            if each.id not in late:
                jobs[number] = replace(each, state="running")
        running = [number for number, each in jobs.items() if each.state == "running"]
        assert len(running) == min(3, len(jobs))
        ended = chance.choice(running)
        del jobs[ended]
        if chance.random() < 0.2:
            jobs[ended + 100] = waits(ended + 100, at_once=3)


def test_what_one_index_teaches_is_true_for_the_others():
    first, second = waits(1, name="train[1]"), waits(2, name="train[2]")
    assert (first.program, second.program) == ("train", "train")
    assert is_same_program(first, second)
    assert is_same_command(first, second)
    assert waits(1, name="train[1]", array=None).program == "train[1]"
    assert waits(1, name="[1]").program == "[1]"
    assert waits(1, name="odd").program == "odd"
