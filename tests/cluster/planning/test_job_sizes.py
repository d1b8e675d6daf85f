# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
from __future__ import annotations

from typing import Any

import pytest

from tf_malleable.cluster.planning.cluster_job import (
    ClusterJob,
    ClusterRate,
    ServerBounds,
    WorkerBounds,
)
from tf_malleable.cluster.planning.job_sizes import Sizes
from tf_malleable.model import Rate


def sizes(workers: tuple[int, int], cpus: tuple[int, int], **options: Any) -> Sizes:
    return Sizes(ClusterJob("a", 0.0, WorkerBounds(*workers, *cpus), **options))


def test_only_numbers_that_shorten_the_longest_run_are_worth_trying():
    assert sizes((1, 12), (1, 4), shards=12).counts == (1, 2, 3, 4, 6, 12)
    assert sizes((1, 3), (1, 4), shards=4).counts == (1, 2)
    # With more than three, none has shards for the fewest CPUs of a worker.
    assert sizes((1, 12), (4, 4), shards=12).counts == (1, 2, 3)


def test_no_more_cpus_than_shards_are_useful_unless_one_can_use_several():
    assert sizes((1, 2), (1, 8), shards=3).greatest == 3
    assert sizes((1, 2), (1, 8), shards=3, shard_cpus=2).greatest == 6
    assert sizes((1, 2), (1, 8), shards=3, shard_cpus=0).greatest == 16


def test_servers_are_in_proportion_to_workers():
    servers = ServerBounds(1, 3, 0.5)
    found = sizes((1, 5), (2, 2), shards=64, servers=servers)
    assert [found.servers(workers) for workers in range(1, 6)] == [1, 2, 2, 3, 3]
    assert (found.fewest, found.greatest) == (2 + 1, 10 + 2)


@pytest.mark.parametrize(
    ("cpus", "workers", "goal"),
    [
        (4, 0, 1),
        (9, 0, 2),
        # A CPU more than two can use is not worth a third worker.
        (17, 2, 2),
        (20, 2, 3),
        # Fewer CPUs for as many workers.
        (6, 3, 3),
        (2, 3, 2),
    ],
)
def test_how_many_workers_there_should_be(cpus: int, workers: int, goal: int):
    assert sizes((1, 4), (1, 8), shards=64).goal(cpus, workers) == goal


def test_the_policy_gets_the_best_speed_with_each_number_of_cpus():
    rates = (
        ClusterRate(4, 2, 2, 5.0),
        ClusterRate(4, 1, 1, 7.0),
        ClusterRate(2, 1, 1, 4.0),
        ClusterRate(4, 2, 1, 6.0),
    )
    assert sizes((1, 2), (1, 8), rates=rates).rates == (Rate(2, 4.0), Rate(4, 7.0))


def test_how_long_it_still_runs():
    rates = (ClusterRate(4, 1, 1, 10.0),)
    known = sizes((1, 2), (1, 8), rates=rates, steps_done=50.0, steps_total=150.0)
    assert known.seconds_left == 10.0
    assert sizes((1, 2), (1, 8), rates=rates).seconds_left == float("inf")


def test_bounds_that_cannot_be_are_refused():
    for bounds in ((2, 1, 1, 1), (1, 1, 2, 1), (0, 1, 1, 1)):
        with pytest.raises(ValueError, match="1 ≤ least ≤ most"):
            WorkerBounds(*bounds)
    with pytest.raises(ValueError, match="0 ≤ least ≤ most"):
        ServerBounds(2, 1)
