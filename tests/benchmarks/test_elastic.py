# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Rows of the benchmark of elastic training, and a small sum."""

from __future__ import annotations

import pytest

from benchmarks.elastic import rescales
from benchmarks.elastic.__main__ import pause_rows, rows
from benchmarks.elastic.exchange import Sums, measure


def test_only_the_large_sum_has_a_target():
    sums = [Sums([0.7, 0.9, 0.7], [0.1, 0.1, 0.1])]
    made = rows({("unix", 1_000_000): sums, ("unix", 25_000_000): sums})
    assert [row.verdict for row in made] == ["", "", "passed", ""]
    assert made[2].found.value == pytest.approx(0.7)


def test_the_longest_pause_is_held_to_the_target():
    found = {(1_000_000, "lost"): [[0.01, 0.02], [0.01, 1.2]]}
    usual, longest = pause_rows(found)
    assert (usual.verdict, longest.verdict) == ("passed", "missed")
    assert longest.found.value == pytest.approx(1.2)


@pytest.mark.slow
def test_all_kinds_of_pauses_are_measured():
    found = rescales.measure(1000, 1)
    assert {reason: len(seconds) for reason, seconds in found.items()} == {
        "join": 3,
        "leave": 1,
        "lost": 1,
    }


@pytest.mark.parametrize("kind", ["unix", "tcp"])
def test_both_processes_sum(kind):
    sums = measure(kind, 10_000, 3)
    assert len(sums.seconds) == len(sums.cpu) == 3
    assert all(each > 0 for each in sums.seconds)
