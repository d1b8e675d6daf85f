# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Whatever happens to its processes, a training ends with the undisturbed run's state."""

from __future__ import annotations

import os
import signal
import time

import pytest

from tests.support.deadline import DEADLINE
from tests.support.elastic_runs import ElasticRun, freeze, thaw, wait_until

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]


@pytest.fixture
def run(tmp_path):
    with ElasticRun(tmp_path) as running:
        yield running


def several(run, count, servers=0):
    """Start workers one after the other, so that the first is the lead."""
    found = [run.start_worker()]
    run.wait_for_members(1)
    found += [run.start_worker() for _ in range(count - 1)]
    for _ in range(servers):
        run.start_server()
    run.wait_for_members(count)
    run.wait_for_members(servers, "server")
    return found


def test_one_worker_has_the_undisturbed_result(run):
    run.start_worker()
    run.finish()


@pytest.mark.parametrize("servers", [0, 2])
def test_workers_that_are_there_from_the_start(run, servers):
    several(run, 3, servers)
    run.finish(least=3)


def test_joins_and_leaves(run):
    first, second = several(run, 2)
    run.start_worker()
    run.wait_for_members(3)
    second.terminate()
    run.wait_for_members(2)
    first.terminate()  # The lead hands over, too.
    run.wait_for_members(1)
    assert first.wait(DEADLINE) == second.wait(DEADLINE) == 0
    run.start_worker()
    run.wait_for_members(2)
    run.finish(least=2)
    reasons = [each["reason"] for each in run.rescales()]
    # Shards may move meanwhile, as a machine may be slower for one of them.
    assert set(reasons) - {"speed"} == {"start", "join", "leave"}


@pytest.mark.parametrize("which", [0, 1])
def test_a_killed_worker(run, which):
    workers = several(run, 3)
    workers[which].kill()
    run.wait_for_members(2)
    lost = run.rescales()[-1]
    assert (lost["reason"], lost["workers_from"], lost["workers_to"]) == ("lost", 3, 2)
    run.finish(least=2)


@pytest.mark.serial("it measures time")
@pytest.mark.parametrize("which", [0, 2])
def test_a_frozen_worker_is_sent_away_when_it_thaws(run, which):
    workers = several(run, 3)
    freeze(workers[which].pid)
    begin = time.monotonic()
    run.wait_for_members(2)
    assert time.monotonic() - begin < 10  # 2 seconds where nothing else computes.
    thaw(workers[which].pid)
    assert workers[which].wait(DEADLINE) in (75, 0)
    run.finish(least=2)


def test_two_killed_at_once(run):
    workers = several(run, 4)
    for worker in workers[:2]:
        worker.kill()
    run.wait_for_members(2)
    run.finish(least=2)


def test_a_killed_and_a_frozen_server(run):
    several(run, 2, servers=2)
    run.servers[0].kill()
    run.wait_for_members(1, "server")
    freeze(run.servers[1].pid)
    run.wait_for_members(0, "server")
    run.start_server()
    run.wait_for_members(1, "server")
    run.finish(least=2)


def test_servers_come_and_go(run):
    several(run, 2)
    run.start_server()
    run.wait_for_members(1, "server")
    run.start_server()
    run.wait_for_members(2, "server")
    run.servers[0].terminate()
    run.wait_for_members(1, "server")
    assert run.servers[0].wait(DEADLINE) == 0
    run.finish(least=2)


def test_a_killed_coordinator_learns_it_all_again(run):
    several(run, 3)
    before = run.rescales()
    run.coordinator.kill()
    run.start_coordinator("--resume")
    run.wait_for_members(3)
    after = run.rescales()
    assert [pauseless(each) for each in after] == [pauseless(each) for each in before]
    for one, other in zip(before, after, strict=True):  # Some may be told of meanwhile.
        assert (one["pause_seconds"] or 0.0) <= (other["pause_seconds"] or 0.0)
    run.start_worker()
    run.wait_for_members(4)
    run.finish(least=4)


def pauseless(rescale):
    return {name: value for name, value in rescale.items() if name != "pause_seconds"}


def test_coordinator_and_worker_killed_at_once(run):
    workers = several(run, 3)
    run.coordinator.kill()
    workers[0].kill()
    time.sleep(0.5)
    run.start_coordinator("--resume")
    run.wait_for_members(2)
    run.finish(least=2)


def test_a_frozen_coordinator(run):
    several(run, 3)
    # Once thawed, it does not know at once how far the workers have come meanwhile.
    run.end_at(run.status()["step"] + 1000)
    freeze(run.coordinator.pid)
    time.sleep(3)
    thaw(run.coordinator.pid)
    run.wait_for_members(3)
    run.finish(least=3)


def test_a_worker_without_a_coordinator_trains_on(run):
    workers = several(run, 2)
    run.end_at(run.status()["step"] + 200)
    run.coordinator.kill()
    workers[0].kill()
    run.finish()
    assert "trains on alone" in run.said()


def test_who_is_told_to_go_goes_without_a_coordinator(run):
    [worker] = several(run, 1, servers=1)
    run.coordinator.kill()
    run.coordinator.wait()
    worker.terminate()
    [server] = run.servers
    server.terminate()
    assert worker.wait(DEADLINE) == server.wait(DEADLINE) == 0
    assert [each["how"] for each in run.results()] == ["left"]


def test_the_only_one_with_the_state_leaves_while_another_joins(run):
    [first] = several(run, 1)
    run.start_worker()
    wait_until(lambda: len(run.status()["processes"]) == 2, str)
    first.terminate()
    assert first.wait(DEADLINE) == 0
    assert [each["how"] for each in run.results()] == ["left"]
    run.wait_for_members(1)
    run.finish()


def test_all_that_had_the_state_are_gone(run):
    [first] = several(run, 1)
    first.kill()
    run._has_founder = False  # It begins as the first did.
    run.start_worker()
    run.finish()
    assert "all processes that had the state of the training are gone" in run.said()


def test_a_join_at_the_very_end_is_told_that_it_is_over(tmp_path):
    with ElasticRun(tmp_path) as run:
        run.end_at(40)
        run.start_worker()
        run.wait_for_step(1)
        for _ in range(3):
            run.start_worker()
            time.sleep(0.15)
        run.finish()
        late = run.start_worker()
        assert late.wait(DEADLINE) == 0
        assert {each["how"] for each in run.results()} <= {"trained", "late"}
        assert "late" in {each["how"] for each in run.results()}


def test_one_worker_more_than_shards_is_refused(run):
    several(run, 4)
    late = run.start_worker()
    assert late.wait(DEADLINE) == 1
    assert "as many workers" in run.said()
    run.finish(least=4)


def test_sigterm_to_the_last_one_ends_it_in_peace(run):
    [first] = several(run, 1)
    os.kill(first.pid, signal.SIGTERM)
    assert first.wait(DEADLINE) == 0
    assert [each["how"] for each in run.results()] == ["left"]
