# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""What the planner is told of a job, and what is remembered for that."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.cluster.test_job_spec import item
from tests.cluster.test_job_state import NOW, TIMINGS, judged, progress, worker
from tests.cluster.test_node_capacity import node
from tf_malleable.cluster.job_spec import ServersSpec, WorkersSpec, parse
from tf_malleable.cluster.observe.job_cache import JobCache, StepSpeed
from tf_malleable.cluster.planning.cluster_job import ClusterRate, WorkerAt
from tf_malleable.cluster.reconcile.planner_input import UsableNodes, cluster_job, size

NODES = {name: node(name) for name in "ab"}


@pytest.fixture
def job(tmp_path):
    return parse(item(tmp_path, workers={"max": 2, "cpu": {"min": "500m", "max": 3}}))


def known(job, *pods, memory=None, said=None, now=NOW, nodes=NODES):
    memory = JobCache() if memory is None else memory
    judgement = judged(job, *pods, said=said, now=now)
    return cluster_job(job, judgement, said, memory, UsableNodes(nodes), now, TIMINGS)


def test_a_job_as_it_is(job):
    found = known(job, worker(0), worker(1, "b", cpus=2.0), said=progress("u0"))
    assert found.placed == (WorkerAt("a", 1, "t-worker-0"), WorkerAt("b", 2, "t-worker-1"))
    assert (found.workers.cpus_least, found.workers.cpus_most) == (1, 3)
    large = replace(job, workers=WorkersSpec(1, 1, 4.5, 5.0))
    assert (known(large).workers.cpus_least, known(large).workers.cpus_most) == (5, 5)
    assert (found.state, found.steps_done, found.allowed) == ("running", 10, None)
    assert known(job).state == "waiting"
    begun = replace(job, status={"startedAt": "1970-01-01T00:10:00Z"})
    assert (known(begun).state, known(begun).run_seconds) == ("paused", 400)


def test_only_nodes_that_its_pods_tolerate_are_allowed(job):
    taints = [{"key": "gpu", "effect": "NoSchedule"}]
    nodes = {"a": node("a"), "b": node("b", taints=taints)}
    assert known(job, nodes=nodes).allowed == {"a"}
    # A node that is cordoned for a while is none that it may never be on.
    taints = [{"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"}]
    assert known(job, nodes={"a": node("a", taints=taints)}).allowed is None


@pytest.mark.parametrize(
    ("resize", "seconds", "limit"),
    [("Infeasible", 0, 1), ("Deferred", 20, 1), ("Deferred", 5, None), ("InProgress", 20, None)],
)
def test_a_resize_that_does_not_come_is_given_up_for_a_while(job, resize, seconds, limit):
    memory = JobCache()
    pod = worker(0, cpus=3.0, actual=1.0, resize=resize, resize_since=NOW - seconds)
    found = known(job, pod, memory=memory)
    assert found.placed == (WorkerAt("a", 3, "t-worker-0", limit),)
    # It is still known when the resize was taken back, and forgotten later.
    back = worker(0, cpus=1.0, actual=1.0)
    memory.tidy([back.uid], NOW + 1)
    assert known(job, back, memory=memory).placed[0].cpus_limit == limit
    memory.tidy([back.uid], NOW + TIMINGS.avoided + 1)
    assert known(job, back, memory=memory).placed[0].cpus_limit is None


def test_a_node_where_a_pod_found_no_place_is_avoided_for_a_while(job):
    memory = JobCache()
    pod = worker(0, is_running=False, unscheduled=("no room", NOW - 100))
    assert known(job, pod, memory=memory).avoided == {"a"}
    memory.tidy([], NOW + TIMINGS.avoided + 1)
    assert known(job, memory=memory).avoided == frozenset()


def admitted(job, labels=(), **annotations):
    names = {"elastic": "kueue.x-k8s.io/elastic-job", "cpus": "tf-malleable.dev/admitted-cpus"}
    said = {names[name]: value for name, value in annotations.items()}
    return known(replace(job, annotations=said, labels=dict(labels)))


QUEUED = (("kueue.x-k8s.io/queue-name", "team"),)


def test_what_was_admitted_is_a_quantity(job):
    assert admitted(job).admitted_cpus is None
    for text, cpus in (("3", 3.0), ("2500m", 2.5), ("0", 0.0), ("-1", 0.0)):
        assert admitted(job, cpus=text).admitted_cpus == cpus
        assert admitted(job, QUEUED, cpus=text).admitted_cpus == cpus


@pytest.mark.parametrize("text", ["", "lots", "nan", "inf"])
def test_a_number_that_is_none_admits_no_more_than_is_needed(job, text):
    assert admitted(job, cpus=text).admitted_cpus == 1


def test_nobody_has_counted_more_than_the_least_of_a_queued_job_without_a_number(job):
    job = replace(job, servers=ServersSpec(2, 2, 0.7))
    assert admitted(job, QUEUED).admitted_cpus == 3
    assert admitted(job, elastic="true").admitted_cpus == 3
    assert admitted(job, elastic="false").admitted_cpus is None
    assert not known(replace(job, labels={"kueue.x-k8s.io/queue-name": ""})).admitted_cpus


def test_only_an_elastic_job_asks_for_more(job):
    assert [admitted(job, elastic=text).asks_for_more for text in ("true", "false", "")] == [
        True,
        False,
        False,
    ]
    assert not admitted(job, QUEUED).asks_for_more


def test_speeds_are_those_of_a_size_that_did_not_change():
    speed = StepSpeed()
    for second in range(7):
        speed.note(second, 10 * second, (2, 2, 1), 1)
    for second in range(7, 9):
        speed.note(second, 10 * second, (1, 1, 1), 2)
    assert speed.measured() == (ClusterRate(2, 2, 1, 10.0),)
    for second in range(9, 15):
        speed.note(second, 80 + 5 * (second - 8), (1, 1, 1), 2)
    found = {(rate.cpus, rate.workers): rate.steps_per_second for rate in speed.measured()}
    assert found.keys() == {(1, 1), (2, 2)}
    assert 5 <= found[1, 1] < 7


def test_a_size_is_of_those_that_take_part():
    pods = worker(0, actual=2.0), worker(1, "b")
    assert size(pods) == (3, 2, 2)
    assert size(pods, frozenset({"u0"})) == (2, 1, 1)
