# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Small files that nobody else has are read before their home has answered."""

from __future__ import annotations

from tf_malleable.tier.readers.lookup_policy import IN_A_ROW, SMALL, LookupPolicy


def seen(count: int, size: int = 100) -> LookupPolicy:
    habits = LookupPolicy()
    for number in range(count):
        assert not habits.is_likely_nobodys(f"/d/{number}")
        habits.read(f"/d/{number}", size)
        habits.answered(f"/d/{number}", True)
    return habits


def test_after_many_in_a_row():
    habits = seen(IN_A_ROW)
    assert habits.is_likely_nobodys("/d/next")
    assert not habits.is_likely_nobodys("/e/next")


def test_not_after_few_nor_for_large_files():
    assert not seen(IN_A_ROW - 1).is_likely_nobodys("/d/next")
    assert not seen(IN_A_ROW, SMALL + 1).is_likely_nobodys("/d/next")


def test_the_first_that_somebody_has_ends_it():
    habits = seen(IN_A_ROW)
    habits.answered("/d/x", False)
    assert not habits.is_likely_nobodys("/d/next")


def test_folders_in_one_folder_are_alike():
    habits = LookupPolicy()
    told = []
    habits.tell = lambda *of: told.append(of)
    for number in range(IN_A_ROW):
        assert not habits.is_likely_nobodys("/data/new/x")
        habits.read(f"/data/{number % 4}/{number}", 100)
        habits.answered(f"/data/{number % 4}/{number}", True)
    assert habits.is_likely_nobodys("/data/new/x")
    assert not habits.is_likely_nobodys("/other/new/x")
    assert told == [("/data", True)]
    habits.answered("/data/5/x", False)
    assert not habits.is_likely_nobodys("/data/new/x")
    assert told[1:] == [("/data", False)]


def test_folders_are_forgotten_before_they_take_much_room():
    habits = seen(IN_A_ROW)
    for number in range(10_001):
        habits.answered(f"/{number}/x", True)
    assert not habits.is_likely_nobodys("/d/next")
