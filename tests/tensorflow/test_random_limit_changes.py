# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Ten thousand random limit changes under real work change no result."""

from pathlib import Path
from typing import Any

import pytest

from tests.support import harness

# They share a run of stock TensorFlow.
pytestmark = pytest.mark.xdist_group("random limit changes")

CHANGES = 10_000
# A child computes for a quarter of a minute, and other tests run meanwhile.
TIMEOUT = 240
WORKLOADS = (
    "keras_cnn",
    "keras_lstm",
    "while_loop",
    "tf_data",
    "xla_jit",
    "counting_ops",
    "sharding_ops",
    "sparse_csr_ops",
    "saved_model",
    "mirrored_strategy",
    "v1_session",
    "nested_functions",
)


@pytest.fixture(scope="session")
def stock_results(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Results of stock TensorFlow with one thread, which is a run without a hang, too."""
    folder = tmp_path_factory.mktemp("stock")
    done = harness.call(
        "cases_workloads",
        "stock_results",
        str(folder),
        stock=True,
        timeout=TIMEOUT,
        TF_NUM_INTRAOP_THREADS=1,
        TF_NUM_INTEROP_THREADS=1,
    )
    assert sorted(done) == sorted(WORKLOADS)
    return folder


@pytest.fixture(scope="module", params=WORKLOADS)
def run(request: pytest.FixtureRequest, stock_results: Path) -> harness.Finished:
    """One child for the three parts of each workload; a part that hangs has no row."""
    arguments = (request.param, str(stock_results), harness.CAPACITY, CHANGES)
    return harness.start("cases_workloads", "under_changing_limits", *arguments, timeout=TIMEOUT)


def _part(run: harness.Finished, name: str) -> dict[str, Any]:
    for row in run.rows:
        if name in row:
            return row[name]
    raise AssertionError(f"no end of {name!r}: exit code {run.returncode}\n{run.stderr[-8000:]}")


@pytest.mark.slow
def test_without_changes_results_are_those_of_stock(run: harness.Finished) -> None:
    assert _part(run, "undisturbed")["wrong"] == []


def test_ten_thousand_changes_leave_results_alone(run: harness.Finished) -> None:
    found = _part(run, "disturbed")
    assert found["wrong"] == []
    assert found["refused"] == []
    assert found["changes"] >= CHANGES
    every_limit = list(range(1, harness.CAPACITY + 1))
    assert found["seen"] == {"intra": every_limit, "inter": every_limit}
    # Nothing here sleeps for a second in all workers at once.
    assert found["stand_ins"] == 0
    # Or else the changes hit pools that did nothing.
    assert all(tasks >= 100 for tasks in found["tasks"].values()), found["tasks"]


def test_dropping_to_one_thread_in_mid_run_does_not_hang(run: harness.Finished) -> None:
    found = _part(run, "dropped")
    assert found["wrong"] == []
    assert found["drops"] == 4
    assert all(limits and set(limits) == {1} for limits in found["limits_after"])
    assert found["settled"]


def test_the_child_ends_well(run: harness.Finished) -> None:
    assert run.returncode == 0, run.stderr[-8000:]
