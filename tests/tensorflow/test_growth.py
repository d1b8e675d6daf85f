# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""What was first used with one thread uses more as soon as it may.

TensorFlow and its libraries decide many things once: at import, at the first use of an op, when a
program is compiled. Whatever decides then must not decide for one thread.
"""

from __future__ import annotations

import os
from functools import cache
from typing import Any

import pytest

from tests.support import harness

MODULE = "cases_growth"
STARTED_WITH_ONE = {"TF_NUM_INTRAOP_THREADS": 1, "TF_NUM_INTEROP_THREADS": 1}
STARTED_WITH_TWO = {"TF_NUM_INTRAOP_THREADS": 2, "TF_NUM_INTEROP_THREADS": 2}


def call(function: str, *arguments: Any, **options: Any) -> Any:
    settings = {"TF_MALLEABLE_MAX_THREADS": 2, "TF_ENABLE_ONEDNN_OPTS": 1}
    return harness.call(MODULE, function, *arguments, timeout=300, **settings, **options)


def two_cpus() -> list[int]:
    cpus = sorted(os.sched_getaffinity(0))[:2]
    if len(cpus) < 2:
        pytest.skip("needs two CPUs")
    return cpus


def started_with(cpu: int, function: str, *arguments: Any) -> Any:
    """Call a function in a process that has this CPU only, as a controller starts a job."""
    return call(function, *arguments, preexec=lambda: os.sched_setaffinity(0, {cpu}))


@cache
def expected() -> dict[str, list[float]]:
    return call("tasks_of_steps", [0], **STARTED_WITH_TWO)


def check(found: dict[str, list[float]]) -> None:
    """Hold a process with 1 thread, then 2, then 1, to one that was started with 2."""
    two = {name: tasks for name, (tasks,) in expected().items()}
    assert all(two.values()), two
    assert {name: tasks[0] for name, tasks in found.items()} == dict.fromkeys(two, 0)
    # How many helpers of a loop find nothing to do any more varies a little.
    assert {name: tasks[1] for name, tasks in found.items()} == pytest.approx(two, rel=0.25)
    assert {name: tasks[2] for name, tasks in found.items()} == dict.fromkeys(two, 0)


@pytest.mark.slow
def test_every_kind_of_op_grows_in_a_process_started_with_one_thread() -> None:
    check(call("tasks_of_steps", [0, 2, 1], **STARTED_WITH_ONE))


@pytest.mark.slow
def test_every_kind_of_op_grows_from_a_limit_of_one() -> None:
    check(call("tasks_of_steps", [0, 2, 1], TF_MALLEABLE_THREADS=1))


@pytest.mark.slow
def test_every_kind_of_op_grows_in_a_process_started_on_one_cpu() -> None:
    cpus = two_cpus()
    check(started_with(cpus[0], "tasks_of_steps", [cpus[:1], cpus, cpus[:1]]))


@pytest.mark.slow
@pytest.mark.parametrize("ways", [STARTED_WITH_ONE, {"TF_MALLEABLE_THREADS": 1}])
def test_tf_data_runs_more_calls_at_a_time(ways: dict[str, int]) -> None:
    assert call("calls_side_by_side", [1, 2], 2, **ways)["calls"] >= 2


@pytest.mark.slow
def test_tf_data_and_xlas_compiler_grow_in_a_process_started_on_one_cpu() -> None:
    cpus = two_cpus()
    found = started_with(cpus[0], "calls_side_by_side", [cpus[:1], cpus], 2)
    assert found["calls"] >= 2
    if harness.tensorflow_minor() >= 21:
        assert found["compilers"] >= 2


@pytest.mark.slow
def test_without_a_limit_the_affinity_decides_as_in_stock_tensorflow() -> None:
    cpu = two_cpus()[0]
    assert started_with(cpu, "calls_side_by_side", [0], 0.5)["calls"] == 1
