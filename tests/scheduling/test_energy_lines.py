# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Whose energy it was; the lines add up to the host's."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tf_malleable.scheduling.energy.energy_lines import Energy, attribute

AMOUNT = st.floats(0, 1e6)


def test_idle_is_a_line_and_the_rest_goes_by_cpu_time():
    lines = attribute(Energy(2.0, 500.0, "measured"), 50.0, 4.0, {"a": 2.0, "b": 1.0})
    assert lines.idle == 100
    assert lines.jobs == {"a": 200, "b": 100}
    assert lines.other == 100
    assert lines.source == "measured"


def test_a_gpu_is_counted_for_the_job_that_has_it():
    energy = Energy(1.0, 300.0, "measured", {0: 100.0, 1: 60.0})
    lines = attribute(energy, 40.0, 2.0, {"a": 1.0, "b": 0.0}, {0: "b"})
    assert lines.jobs == {"a": 50, "b": 100}
    assert lines.other == 50 + 60


def test_nobody_worked_so_what_was_drawn_beyond_idle_is_no_jobs():
    lines = attribute(Energy(1.0, 80.0, "estimated"), 50.0, 0.0, {"a": 0.0})
    assert (lines.idle, lines.other, lines.jobs) == (50, 30, {"a": 0})


def test_less_than_idle_is_all_idle():
    lines = attribute(Energy(1.0, 30.0, "measured"), 50.0, 1.0, {"a": 1.0})
    assert (lines.idle, lines.other, lines.jobs) == (30, 0, {"a": 0})


@given(
    st.floats(0.01, 100),
    AMOUNT,
    st.floats(0, 1000),
    st.floats(0, 1000),
    st.dictionaries(st.text(max_size=3), st.floats(-1, 1000), max_size=128),
    st.dictionaries(st.integers(0, 7), AMOUNT, max_size=8),
    st.dictionaries(st.integers(0, 7), st.text(max_size=3)),
)
def test_lines_are_never_negative_and_add_up(seconds, joules, idle, busy, jobs, gpus, owners):
    lines = attribute(Energy(seconds, joules, "measured", gpus), idle, busy, jobs, owners)
    assert lines.total == pytest.approx(joules, rel=1e-6, abs=1e-6)
    assert lines.jobs.keys() == jobs.keys()
    for line in (lines.idle, lines.other, *lines.jobs.values()):
        assert line >= -1e-6 * max(1.0, joules)
