# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Processes that are forked, spawned or end, with workers parked."""

import re

import pytest

from tests.support import harness


@pytest.mark.slow
@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_children_of_multiprocessing_have_limits_of_their_own(method: str) -> None:
    found = harness.call("cases_processes", "child_of_multiprocessing", method, fresh=True)
    assert found["exitcode"] == 0
    assert found["before"] == ([5, 5] if method == "fork" else [None, None])
    assert found["limits"] == [[4, 4], [1, 1], [3, 3]]
    assert set(found["work"]) == {found["work_here"]}
    assert {"tf_Compute", "tf_numa_-1_Eigen"} <= set(found["pools"])


@pytest.mark.slow
def test_forked_children_may_call_tf_malleable_while_limits_change() -> None:
    found = harness.call(
        "cases_processes", "forked_while_limits_change", harness.CAPACITY, 60, fresh=True
    )
    assert found["codes"] == [0] * 60
    assert found["pools_here"] >= 2
    assert found["work_here"] > 0


def _noise(stderr: str) -> list[str]:
    """Lines without what differs between any two runs: times, processes, threads."""
    return sorted(re.sub(r"^([IWE])\S+\s+\S+\s+\d+ ", r"\1 ", line) for line in stderr.splitlines())


@pytest.mark.slow
@pytest.mark.parametrize(
    "how", ["parked", "parked_from_the_start", "tasks_running", "ops_running", "daemon_waiting"]
)
def test_the_interpreter_ends_as_on_stock(how: str) -> None:
    stock = harness.start("cases_processes", "end", how, stock=True, fresh=True)
    ours = harness.start("cases_processes", "end", how, fresh=True)
    assert stock.returncode == 0, stock.stderr
    assert ours.returncode == 0, ours.stderr
    limits = ours.value()["limits"]
    assert [1, harness.CAPACITY] in limits
    assert all(limit == 1 for limit, _ in limits)
    assert _noise(ours.stderr) == _noise(stock.stderr)
