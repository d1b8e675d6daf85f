# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Which files are foretold: those of an order that a program has had, and goes through again."""

import random

from tf_malleable.tier.readers.access_order import (
    AHEAD,
    IN_A_ROW,
    LEAST,
    AccessOrder,
    OpeningProgram,
)

FILES = [f"/data/{number:03}" for number in range(60)]


def go(orders, paths, program=None, is_copy=False):
    """Open files; return what was foretold after each of them."""
    program = program or OpeningProgram()
    return [orders.opened(program, path, is_copy) for path in paths]


def known(*runs):
    """Return what has learned from programs that have ended."""
    orders = AccessOrder()
    for paths in runs:
        program = OpeningProgram()
        go(orders, paths, program)
        orders.ended(program)
    return orders


def test_a_program_in_the_order_of_an_earlier_one_is_foretold():
    found = go(known(FILES), FILES)
    assert found[:IN_A_ROW] == [()] * IN_A_ROW
    for place in range(IN_A_ROW, len(FILES)):
        assert found[place] == tuple(FILES[place + 1 : place + 1 + AHEAD])


def test_it_may_begin_anywhere():
    found = go(known(FILES), FILES[20:])
    assert found[IN_A_ROW] == tuple(FILES[20 + IN_A_ROW + 1 :][:AHEAD])


def test_of_one_that_shuffles_anew_nothing_is_foretold():
    chance = random.Random(1)
    runs = [chance.sample(FILES, len(FILES)) for _ in range(6)]
    assert not any(go(known(*runs[:5]), runs[5]))


def test_a_second_epoch_in_the_same_order_is_foretold():
    found = go(AccessOrder(), FILES * 2)
    assert not any(found[: len(FILES)])
    assert found[len(FILES) + IN_A_ROW] == tuple(FILES[IN_A_ROW + 1 :][:AHEAD])


def test_openings_of_copies_tell_where_a_program_is():
    orders, program = known(FILES), OpeningProgram()
    go(orders, FILES[: IN_A_ROW + 1], program)
    # One a second is heard of.
    assert go(orders, FILES[20:21], program, is_copy=True) == [tuple(FILES[21:][:AHEAD])]
    assert go(orders, FILES[:1], program, is_copy=True) == [()]


def test_openings_of_copies_are_no_order():
    orders, program = AccessOrder(), OpeningProgram()
    go(orders, FILES, program, is_copy=True)
    orders.ended(program)
    assert not any(go(orders, FILES))


def test_a_program_that_goes_on_in_an_order_leaves_it_as_it_is():
    orders, program = known(FILES), OpeningProgram()
    go(orders, FILES[:10], program)
    orders.ended(program)
    assert go(orders, FILES[30:])[-5] == tuple(FILES[-4:])


def test_a_file_that_is_told_of_twice_counts_once():
    found = go(known(FILES), [path for path in FILES for _ in range(2)])
    assert found[2 * IN_A_ROW - 1] == ()
    assert found[2 * IN_A_ROW] == found[2 * IN_A_ROW + 1] != ()


def test_a_few_files_are_no_order():
    few = FILES[: LEAST - 1]
    assert not any(go(known(few), few))


def test_the_orders_of_the_last_programs_are_kept():
    runs = [[f"/{run}{path}" for path in FILES] for run in range(30)]
    orders = known(*runs)
    assert any(go(orders, runs[-1]))
    assert not any(go(orders, runs[0]))
    long = [f"/{number}" for number in range(150_000)]
    orders = known(FILES, long, runs[0])
    assert [any(go(orders, paths[:20])) for paths in (FILES, long, runs[0])] == [True] * 3
    orders = known(FILES, long, [f"/long{path}" for path in long])
    assert [any(go(orders, paths[:20])) for paths in (FILES, long)] == [False] * 2
    # A newer order of the same files outlives an older one.
    orders = known(FILES, *runs[:10], FILES[::-1], *runs[10:15])
    assert any(go(orders, FILES[::-1]))
    assert not any(go(orders, FILES))
