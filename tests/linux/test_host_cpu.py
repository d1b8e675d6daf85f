# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""CPU time of everything on a host."""

from __future__ import annotations

import os

import pytest

from tf_malleable.linux.host_cpu import HostCpu

TICKS = os.sysconf("SC_CLK_TCK")


def stat(path, *fields: int):
    path.write_text(f"cpu  {' '.join(map(str, fields))}\ncpu0 1 2 3\nintr 5\n")
    return str(path)


def test_idle_waiting_and_stolen_time_do_not_count_nor_a_guests_twice(tmp_path):
    # user nice system idle iowait irq softirq steal guest guest_nice
    path = tmp_path / "stat"
    cpu = HostCpu(stat(path, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0))
    stat(path, 100, 10, 20, 5000, 300, 1, 2, 400, 50, 5)
    assert cpu.busy_since() == pytest.approx((100 + 10 + 20 + 1 + 2) / TICKS)
    assert cpu.busy_since() == 0


def test_a_clock_that_goes_back_is_no_time(tmp_path):
    path = tmp_path / "stat"
    cpu = HostCpu(stat(path, 100, 0, 0, 0, 0, 0, 0))
    stat(path, 90, 0, 0, 0, 0, 0, 0)
    assert cpu.busy_since() == 0
    stat(path, 95, 0, 0, 0, 0, 0, 0)
    assert cpu.busy_since() == pytest.approx(5 / TICKS)


def test_this_host():
    cpu = HostCpu()
    assert cpu.cpus >= 1
    while not cpu.busy_since():
        sum(range(100_000))
