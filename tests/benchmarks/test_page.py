# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Rows of the benchmark of the page, from made-up samples, and its processes."""

from __future__ import annotations

import os
import signal
import time

import pytest

from benchmarks.common.command_line import BenchmarkError
from benchmarks.page import processes
from benchmarks.page.rows import pooled_ratio, rows


def found(made, label):
    (row,) = [row for row in made if label in row.label]
    return row


def test_nothing_measured_has_no_row():
    assert rows({}) == []


def test_one_late_change_of_a_hundred_may_be_late():
    drawn = [100.0] * 99
    assert found(rows({"pixel": [*drawn, 900.0]}), "99th").verdict == "passed"
    assert found(rows({"pixel": [*drawn, 900.0, 900.0, 900.0]}), "99th").verdict == "missed"
    assert found(rows({"pixel": [*drawn, 900.0]}), "longest").found.value == 900


def test_what_viewers_cost_is_divided_by_their_number():
    shares = {"0": [0.01, 0.01], "1": [0.015, 0.015], "10": [0.06, 0.06]}
    each = found(rows({"load": shares}), "each viewer more")
    assert each.found.value == pytest.approx(0.5)
    assert each.verdict == "passed"
    assert found(rows({"load": {**shares, "10": [0.2, 0.2]}}), "each viewer").verdict == "missed"


@pytest.mark.slow
def test_grants_with_viewers_are_held_against_those_without():
    plain = [[1.0] * 98 + [10.0, 10.0]] * 3
    made = rows({"grants": {"without": plain, "with": plain}})
    assert found(made, "ratio").found.value == pytest.approx(1.0)
    slower = [[2 * taken for taken in part] for part in plain]
    made = rows({"grants": {"without": plain, "with": slower}})
    assert found(made, "ratio").verdict == "missed"
    assert pooled_ratio(slower, plain).low == pytest.approx(2.0)


def _killed(pipe):
    os.kill(os.getpid(), signal.SIGKILL)


def _waits(pipe):
    pipe.poll(None)


@pytest.mark.serial("it measures time")
@pytest.mark.slow
def test_a_process_that_is_killed_holds_nothing_up():
    begin = time.monotonic()
    with processes._child(_killed) as (pipe, process):
        process.join(20)
        assert process.exitcode == -signal.SIGKILL
        with pytest.raises(EOFError):
            pipe.recv_bytes()
    with processes._child(_waits) as (_, process):
        assert process.is_alive()
    assert not process.is_alive()
    assert time.monotonic() - begin < processes._END_SECONDS


@pytest.mark.slow
def test_a_service_that_does_not_start_is_told_of(monkeypatch):
    monkeypatch.setattr(processes, "_crowd", _dies)
    with (
        pytest.raises(BenchmarkError, match="the service with its jobs has not started"),
        processes.service("/nowhere"),
    ):
        pass


def _dies(directory, pipe):
    os._exit(3)
