# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Rows of the benchmark of many cores, from made-up samples."""

from __future__ import annotations

import pytest

from benchmarks.common.enlarging import Enlarging
from benchmarks.common.turns import Slice
from benchmarks.cores import names
from benchmarks.cores.rows import (
    ChangeSample,
    EnlargeSample,
    IdleSample,
    MemorySample,
    PairSample,
    Samples,
    rows,
)

STOCK = Slice(steps=100, wall=1.0, cpu=2.0)
SLOWER = Slice(steps=90, wall=1.0, cpu=1.98)


def test_nothing_measured_has_no_row():
    assert list(rows(Samples())) == []


def test_a_pair_has_a_row_for_throughput_and_one_for_cpu_time():
    samples = Samples(pairs=[PairSample(0, "capacity-64", "mlp", STOCK, SLOWER)])
    throughput, cpu = rows(samples)
    assert (throughput.label, throughput.workload) == ("throughput, limit 2 of 64", "mlp")
    assert throughput.found.value == pytest.approx(0.9)
    assert cpu.found.value == pytest.approx(1.1)
    assert {throughput.verdict, cpu.verdict} == {"missed"}


def test_memory_may_grow_with_the_capacity():
    stock = 400 * 2**20
    ours = int(1.04 * stock) + 256 * names.MEMORY_PER_THREAD
    [row] = rows(Samples(memory=[MemorySample(0, "capacity-256", "bincount", stock, ours)]))
    assert row.found.value == pytest.approx(1.04)
    assert row.verdict == "passed"


def test_placement_is_shown_for_reference():
    samples = Samples(pairs=[PairSample(0, names.PLACEMENT, "cnn", STOCK, SLOWER)])
    [row] = rows(samples)
    assert row.found.value == pytest.approx(0.9)
    assert row.verdict == ""


def test_changes_and_enlarged_trainings_are_held_to_the_ideal():
    samples = Samples(
        changes=[ChangeSample(0, "mlp", 960, 1000), ChangeSample(1, "mlp", 990, 1000)],
        enlarged=[EnlargeSample(0, "cnn", Enlarging(at_one=12.0, at_two=6.0, enlarged=8.0))],
    )
    changes, enlarged = rows(samples)
    assert changes.found.value == pytest.approx(0.975)
    assert enlarged.found.value == pytest.approx(1.0)
    assert (changes.verdict, enlarged.verdict) == ("passed", "passed")


def test_parked_threads_are_to_cost_nothing():
    samples = Samples(
        pairs=[PairSample(0, names.PARKED, "mlp", STOCK, STOCK)],
        idle=[IdleSample(0, ours=0.0002, stock=0.0001)],
    )
    busy, idle = rows(samples)
    assert (busy.found.value, busy.verdict) == (1.0, "passed")
    assert (idle.found.value, idle.unit, idle.verdict) == (0.0002, "CPUs", "passed")
