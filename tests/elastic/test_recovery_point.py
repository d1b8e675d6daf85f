# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Who goes on after a loss, and where."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from tf_malleable.elastic.membership.recovery_point import Position, reconcile

NOTHING = Position("", 0, has_sum=False)


def at(step, *, has_sum=True, lineage="x"):
    return Position(lineage, step, has_sum)


def test_one_that_is_behind_gets_the_sum():
    found = reconcile({"a": at(5), "b": at(4), "c": NOTHING})
    assert (found.step, found.members, found.giver) == (5, {"a", "b"}, "a")
    assert found.expelled == frozenset()


def test_all_at_one_step_need_nobody_s_sum():
    assert reconcile({"a": at(5), "b": at(5)}).giver is None


def test_one_that_only_a_newcomer_could_help_is_sent_away():
    found = reconcile({"a": at(5, has_sum=False), "b": at(4)})
    assert (found.members, found.expelled, found.giver) == ({"a"}, {"b"}, None)


def test_one_that_was_away_for_long_is_sent_away():
    found = reconcile({"a": at(50), "b": at(4)})
    assert (found.members, found.expelled) == ({"a"}, {"b"})


def test_two_trainings_never_mix():
    found = reconcile({"a": at(5, lineage="y"), "b": at(5), "c": at(5)})
    assert (found.lineage, found.members, found.expelled) == ("x", {"b", "c"}, {"a"})


def test_nobody_has_the_state():
    assert reconcile({"a": NOTHING}) is None
    assert reconcile({}) is None


POSITIONS = st.builds(Position, st.sampled_from(["", "x", "y"]), st.integers(0, 3), st.booleans())


@given(st.dictionaries(st.sampled_from("abcdef"), POSITIONS))
def test_everybody_who_goes_on_can(positions):
    found = reconcile(positions)
    holders = {id_ for id_, each in positions.items() if each.lineage}
    if found is None:
        assert not holders
        return
    assert found.members | found.expelled == holders
    assert found.members
    assert not found.members & found.expelled
    assert found.step == max(positions[each].step for each in holders)
    for each in found.members:
        position = positions[each]
        assert position.lineage == found.lineage
        behind = found.step - position.step
        assert behind == 0 or (behind == 1 and positions[found.giver].has_sum)
    if found.giver is not None:
        assert positions[found.giver].step == found.step
