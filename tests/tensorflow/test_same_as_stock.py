# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""What tf_malleable must leave as it is in stock TensorFlow."""

from functools import cache
from typing import Any

import pytest

from tests.support import harness

STARTS = [None, 1, 2, 3]


@cache
def stock_results(threads: int | None, by_config: bool = False) -> dict[str, str]:
    return _started_with(threads, threads, by_config, stock=True)["results"]


def _started_with(
    intra: int | None, inter: int | None, by_config: bool, **options: Any
) -> dict[str, Any]:
    if by_config:
        return harness.call("cases_stock", "untouched", intra, inter, **options)
    options.update(TF_NUM_INTRAOP_THREADS=intra, TF_NUM_INTEROP_THREADS=inter)
    return harness.call("cases_stock", "untouched", None, None, **options)


def _check_reported(found: dict[str, Any], threads: int | None, capacity: int) -> None:
    intra, inter = found["reported"]["limits"]
    assert found["reported"]["pools"] == {
        "intra_op": [intra, max(intra, capacity)],
        "inter_op": [inter, max(inter, capacity)],
    }
    if threads is not None:
        assert (intra, inter) == (threads, threads)


@pytest.mark.slow
@pytest.mark.parametrize("threads", STARTS)
def test_nothing_changes_until_a_limit_is_set(threads: int | None) -> None:
    found = _started_with(threads, threads, by_config=False)
    _check_reported(found, threads, harness.CAPACITY)
    assert found["results"] == stock_results(threads)


@pytest.mark.slow
@pytest.mark.parametrize("threads", [1, 3])
def test_nothing_changes_for_tf_config_either(threads: int) -> None:
    found = _started_with(threads, threads, by_config=True)
    _check_reported(found, threads, harness.CAPACITY)
    assert found["results"] == stock_results(threads, by_config=True)


def test_the_two_limits_are_not_mixed_up() -> None:
    found = _started_with(3, 1, by_config=False)
    assert found["reported"]["limits"] == [3, 1]


@pytest.mark.slow
def test_a_limit_computes_what_stock_started_with_it_computes() -> None:
    limits = [1, 3, 2, 3, 1]
    found = harness.call("cases_stock", "at_limits", limits)
    assert found == [stock_results(limit) for limit in limits]
    # Or else the results would not tell one number of threads from another.
    assert len({results["drawn"] for results in found}) == 3


@pytest.mark.slow
def test_workers_flush_denormals_and_round_to_nearest() -> None:
    stock = harness.call("cases_stock", "floating_point", 4, stock=True)
    ours = harness.call("cases_stock", "floating_point", 4)
    assert ours.pop("intra_tasks") >= 10
    assert stock.pop("intra_tasks") is None
    assert ours == stock
    assert ours["flushed_results"] == ours["flushed_operands"] == ours["rounded_to_nearest"] == 1
    assert sum(ours["modes"].values()) == 64


@pytest.mark.slow
def test_threads_and_profiler_events_are_those_of_stock() -> None:
    stock = harness.call("cases_stock", "threads_and_trace", stock=True)
    ours = harness.call("cases_stock", "threads_and_trace", TF_MALLEABLE_MAX_THREADS=None)
    assert ours["names"] == stock["names"]
    if harness.tensorflow_minor() >= 21:  # Earlier ones give threads no names.
        assert ours["names"]["tf_Compute"] >= 1
    assert ours["cpus"] == stock["cpus"]
    assert set(ours["pool_events"]) == set(stock["pool_events"])
    assert sum(stock["pool_events"].values()) >= 100
    for name, count in stock["pool_events"].items():
        assert count / 2 <= ours["pool_events"][name] <= count * 2, name
