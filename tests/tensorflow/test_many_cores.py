# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""On a host with many CPUs, a limit of two costs what two threads cost."""

import os
from pathlib import Path

import pytest

from tests.support import harness

MODULE = "cases_many_cores"
CAPACITY = 64


def call(function: str, *arguments: object, **variables: object):
    settings = {
        "TF_MALLEABLE_MAX_THREADS": CAPACITY,
        "TF_NUM_INTRAOP_THREADS": CAPACITY,
        # By default only on CPUs with certain instructions.
        "TF_ENABLE_ONEDNN_OPTS": 1,
    }
    return harness.call(MODULE, function, *arguments, **{**settings, **variables})


@pytest.mark.slow
def test_work_is_cut_into_as_many_pieces_as_the_limit():
    found = call("tasks_by_limit", [2, 8, 1])
    assert set(found) == {"dense", "conv", "matmul"}
    for name, (two, eight, one) in found.items():
        # An op has a few loops, each with a task for each thread; far from 64 in all.
        assert 0 < two < eight, (name, two, eight)
        assert two < 20, (name, two)
        assert one == 0, name


@pytest.mark.slow
@pytest.mark.parametrize("threads", [1, 2, 4, 8, 16])
def test_an_op_has_the_tasks_of_a_tensorflow_started_with_the_limit(threads):
    """In place of speed on as many cores, which few machines have."""
    inter = {"TF_NUM_INTEROP_THREADS": 2}
    stock = harness.call(
        MODULE,
        "tasks_traced",
        stock=True,
        TF_NUM_INTRAOP_THREADS=threads,
        TF_ENABLE_ONEDNN_OPTS=1,
        **inter,
    )
    ours = call("tasks_traced", TF_MALLEABLE_THREADS=threads, **inter)
    assert ours == stock
    assert sum(stock.values()) > 0


@pytest.mark.slow
def test_a_plan_is_made_once_for_each_limit():
    found = call("plans_by_limit", [2, 4, 2, 4, 1, 1], ONEDNN_VERBOSE="profile")
    for name, (two, four, again_two, again_four, one, again_one) in found.items():
        if name == "matmul":
            continue  # It is not planned.
        assert two > 0, name
        assert four > 0, name
        assert one > 0, name
        assert (again_two, again_four, again_one) == (0, 0, 0), name


@pytest.mark.slow
@pytest.mark.parametrize("capacity", [2, 16, 64, 256])
def test_results_stay_right_while_widths_change(capacity):
    found = call("results_while_limits_change", capacity, 10_000, TF_MALLEABLE_MAX_THREADS=capacity)
    assert found["wrong"] == []
    assert found["changes"] >= 10_000
    assert found["rounds"] > 10


@pytest.mark.slow
def test_buffers_for_each_thread_are_as_many_as_the_limit():
    stock = harness.call(MODULE, "memory_of_bincount", stock=True, TF_NUM_INTRAOP_THREADS=2)
    ours = call("memory_of_bincount", TF_MALLEABLE_THREADS=2)
    assert ours["bytes"] < stock["bytes"] + 16 * 2**20


@pytest.mark.slow
def test_threads_are_started_when_the_limit_reaches_them():
    stock = harness.call(
        MODULE,
        "threads_of_process",
        stock=True,
        TF_NUM_INTRAOP_THREADS=2,
        TF_NUM_INTEROP_THREADS=2,
    )
    ours = call("threads_of_process", TF_MALLEABLE_MAX_THREADS=256, TF_MALLEABLE_THREADS=2)
    # One more in each of the pools that may grow, and the one that follows the cgroup.
    assert ours["threads"] <= stock["threads"] + 8


def test_pools_of_sessions_are_inter_op():
    found = call("pools_of_sessions")
    kinds = {name: (kind, limit) for name, kind, limit in found}
    assert kinds["tf_Compute0"] == ("inter_op", 2)
    assert kinds["tf_Compute1"] == ("inter_op", 2)


PIDS = Path("/sys/fs/cgroup/pids")


@pytest.fixture
def few_threads(tmp_path):
    """Give a cgroup whose processes may have 70 threads in all."""
    own = Path("/proc/self/cgroup").read_text()
    root = PIDS if PIDS.is_dir() else Path("/sys/fs/cgroup")
    folder = root / f"tfm-test-{os.getpid()}"
    try:
        folder.mkdir()
        (folder / "pids.max").write_text("70")
    except OSError as error:
        if folder.is_dir():
            folder.rmdir()
        pytest.skip(f"no cgroup with pids.max can be made here ({error}): {own}")
    yield folder
    folder.rmdir()


@pytest.mark.slow
def test_a_process_that_may_have_few_threads_has_a_lower_capacity(few_threads, monkeypatch):
    def join() -> None:
        (few_threads / "cgroup.procs").write_text(str(os.getpid()))

    started = harness.start(
        MODULE,
        "still_computes",
        preexec=join,
        TF_MALLEABLE_MAX_THREADS=CAPACITY,
        TF_MALLEABLE_THREADS=CAPACITY,
    )
    found = started.value()
    assert found["finite"]
    assert min(found["capacities"].values()) < CAPACITY
    warnings = [line for line in started.stderr.splitlines() if "tf_malleable" in line]
    assert len(warnings) == 1
    assert "the system allows few more threads" in warnings[0]
