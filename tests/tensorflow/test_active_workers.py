# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""No pool has more active workers than its limit once it has settled."""

from typing import Any

import pytest

from tests.support import harness

pytestmark = pytest.mark.serial("counts active workers")

SLEEPING = ["tf_data_private_threadpool", "tf_Compute"]
LIMITS = range(1, harness.CAPACITY + 1)
# XLA's compiler has a pool since TensorFlow 2.21.
CODEGEN = ["tf_xla-cpu-codegen"] if harness.tensorflow_minor() >= 21 else []


@pytest.fixture(scope="module")
def found() -> dict[str, Any]:
    return harness.call("cases_active", "sample_every_limit", harness.CAPACITY, 0.3, SLEEPING)


def test_active_workers_never_exceed_the_limit(found: dict[str, Any]) -> None:
    assert found["failed"] == []
    assert found["wrong"] == []
    assert found["unsettled"] == 0
    assert found["samples"] > 10_000


@pytest.mark.parametrize("pool", SLEEPING)
def test_sleeping_tasks_fill_every_limit(found: dict[str, Any], pool: str) -> None:
    highest = found["highest"][pool]
    assert highest == {str(limit): limit for limit in LIMITS}


@pytest.mark.parametrize("pool", ["tf_numa_-1_Eigen", *CODEGEN])
def test_computing_tasks_fill_as_many_as_there_are_cpus(found: dict[str, Any], pool: str) -> None:
    # At limit 1 loops run where they are called, not on the one worker.
    highest = {int(limit): active for limit, active in found["highest"][pool].items()}
    assert sorted(highest) == list(LIMITS)
    assert max(highest.values()) >= 2


def test_every_pool_was_looked_at(found: dict[str, Any]) -> None:
    assert set(found["highest"]) >= {
        "tf_numa_-1_Eigen",
        "tf_Compute",
        "tf_graph_runner",
        "tf_data_private_threadpool",
        "tf_XLAEigen",
        *CODEGEN,
    }


def test_a_compiled_step_gives_nothing_to_the_pool_at_limit_1() -> None:
    """As in a TensorFlow started with 1, also when it was first run with more."""
    limits = [2, 1, 2, 1]
    counts = harness.call("cases_active", "tasks_of_xla_steps", limits, TF_NUM_INTRAOP_THREADS=2)
    assert [count > 0 for count in counts] == [limit > 1 for limit in limits]


def test_a_compiled_step_first_run_with_one_thread_uses_more_when_it_may() -> None:
    limits = [0, 2, 1]
    counts = harness.call("cases_active", "tasks_of_xla_steps", limits, TF_NUM_INTRAOP_THREADS=1)
    assert [count > 0 for count in counts] == [False, True, False]
