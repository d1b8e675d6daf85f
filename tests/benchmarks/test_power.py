# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Rows of the benchmark of power from made-up samples; windows, and what a hull allows."""

from __future__ import annotations

import pytest

from benchmarks.power import budget
from benchmarks.power.auditor import windows
from benchmarks.power.rows import rows
from benchmarks.power.servers import SERVERS
from tf_malleable.linux.host_cpu import HostCpu

KEPT = {
    "server": "IBM",
    "watts": 140.0,
    "window": 60.0,
    "windows": 50,
    "within": 1.0,
    "highest": 141.4,
    "work": 0.95,
    "paused": 0.4,
}
CARRIED = {"units": 200, "rounds": 10, "p50": 50.0, "p99": 100.0}


def verdicts(samples):
    return {row.label.partition(",")[0]: row.verdict for row in rows(samples)}


def test_nothing_measured_has_no_row():
    assert rows({}) == []


def test_the_worst_server_is_held_to_the_target():
    worst, mean = rows({"calibration": {"a": 0.02, "b": 0.12}})
    assert (worst.found.value, worst.verdict, worst.remark) == (pytest.approx(12.0), "missed", "b")
    assert mean.found.value == pytest.approx(7.0)


def test_metering_is_held_to_the_target_with_any_number_of_jobs():
    made = rows({"metering": {"2": [0.01, 0.02], "128": [0.3, 0.3]}})
    assert [row.verdict for row in made] == ["passed", "missed"]


def test_units_acknowledge_within_a_second():
    assert verdicts({"units": [CARRIED]})["99th percentile"] == "passed"
    assert verdicts({"units": [{**CARRIED, "p99": 1200.0}]})["99th percentile"] == "missed"


def test_windows_of_all_runs_count_and_so_does_work():
    assert set(verdicts({"budget": [KEPT]}).values()) == {"passed", ""}
    worse = {**KEPT, "within": 0.9, "highest": 150.0, "work": 0.5}
    made = {row.label: row for row in rows({"budget": [KEPT, worse]})}
    assert made["windows with at most 2 % more"].found.value == pytest.approx(95.0)
    assert made["windows with at most 2 % more"].verdict == "missed"
    assert made["work, by what the hull allows"].verdict == "missed"


def test_windows_overlap_and_none_is_cut_off():
    # 100 W for five seconds, then 200 W.
    samples = [(float(t), 100.0 * min(t, 5) + 200.0 * max(0, t - 5), 0.0) for t in range(11)]
    assert windows(samples, 5.0) == [100.0, 120.0, 140.0, 160.0, 180.0, 200.0]
    assert windows(samples, 11.0) == []


def test_the_hull_is_between_none_and_all():
    server, cpus = SERVERS[4], HostCpu().cpus
    assert budget.hull_cores(server, server.curve.full, 0.0) == cpus
    assert budget.hull_cores(server, server.curve.idle, 0.0) == 0
    middle = (server.curve.idle + server.curve.full) / 2
    assert 0 < budget.hull_cores(server, middle, 0.5) < budget.hull_cores(server, middle, 0.0)
