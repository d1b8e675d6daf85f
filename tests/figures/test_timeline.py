# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""A history as rows, cores in use over time, and stacked bands."""

from __future__ import annotations

from collections import defaultdict
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.histories import ZERO, history, job, shared
from tf_malleable.api.schema.history import History, Span
from tf_malleable.figures.timeline import Band, Row, Stretch, bands, load, rows


def test_a_row_for_each_job_in_order_of_arrival():
    large, first, second = rows(shared())
    assert [row.label for row in (large, first, second)] == [
        "large.py",
        "small.py (2)",
        "small.py (3)",
    ]
    assert [row.outcome for row in (large, first, second)] == ["finished", "finished", "failed"]
    # A core for another, or one moved at once, is no seam.
    assert large.stretches == (
        Stretch(0, 4, "running", 2),
        Stretch(4, 6, "running", 1),
        Stretch(6, 8, "paused", 0),
        Stretch(8, 10, "running", 1),
        Stretch(10, 12, "running", 2),
    )
    assert first.stretches == (Stretch(4, 8, "running", 1),)
    assert second.stretches == (Stretch(5, 6, "waiting", 0), Stretch(6, 9, "running", 1))


def test_a_live_job_has_spans_but_no_record():
    ended = job(1, "a", [(2, 3, "running", [0])])
    live = [Span("7", ZERO, ZERO + 5, "running", [1])]
    found = rows(History([ended[0]], [*ended[1], *live], shared().summary))
    assert [(row.label, row.outcome) for row in found] == [("job 7", None), ("a", "finished")]
    assert found[1].stretches == (Stretch(2, 3, "running", 1),)


def test_without_spans_the_record_tells():
    record, _ = job(
        1, "a", [(0, 2, "waiting", []), (2, 4, "running", [0]), (4, 6, "running", [0, 1])]
    )
    never, _ = job(2, "b", [(1, 3, "waiting", [])], "cancelled")
    first, second = rows(History([record, never], [], shared().summary))
    assert first.stretches == (Stretch(0, 2, "waiting", 0), Stretch(2, 6, "running", 1.5))
    assert second.stretches == (Stretch(1, 3, "waiting", 0),)


def test_nothing_gives_nothing():
    assert rows(history()) == []
    assert load([]) == []
    assert bands([]) == []


def test_cores_in_use_over_time():
    assert load(rows(shared())) == [(0, 2), (4, 2), (6, 2), (8, 2), (9, 1), (10, 2), (12, 0)]


def test_bands_are_stacked_and_drawn_once_as_long_as_they_stay():
    found = sorted(bands(rows(shared())), key=lambda band: (band.row, band.begin))
    assert found == [
        Band(0, 0, 4, 0, 2),
        Band(0, 4, 6, 0, 1),
        Band(0, 8, 10, 0, 1),
        Band(0, 10, 12, 0, 2),
        Band(1, 4, 6, 1, 2),
        Band(1, 6, 8, 0, 1),
        Band(2, 6, 9, 1, 2),
    ]


lives = st.lists(
    st.tuples(
        st.integers(1, 5), st.sampled_from(["waiting", "running", "paused"]), st.integers(1, 4)
    ),
    max_size=6,
)


def row(begin: int, life: list[tuple[int, str, int]]) -> Row:
    stretches = []
    for length, state, cores in life:
        count = cores if state == "running" else 0
        stretches.append(Stretch(begin, begin + length, state, count))
        begin += length
    return Row("", tuple(stretches), None)


@pytest.mark.slow
@given(st.lists(st.builds(row, st.integers(0, 5), lives), max_size=6))
def test_bands_fill_the_load_exactly(panel):
    stacked = bands(panel)
    area: defaultdict[int, float] = defaultdict(float)
    for band in stacked:
        assert band.begin < band.end
        area[band.row] += (band.end - band.begin) * (band.top - band.bottom)
    for index, each in enumerate(panel):
        assert area[index] == pytest.approx(
            sum((s.end - s.begin) * s.cores for s in each.stretches)
        )
    for (begin, total), (end, _) in pairwise(load(panel)):
        here = sorted((b.bottom, b.top) for b in stacked if b.begin <= begin and b.end >= end)
        assert [low for low, _ in here] == [0.0, *(top for _, top in here)][: len(here)]
        assert (here[-1][1] if here else 0) == total
