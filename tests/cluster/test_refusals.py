# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""What the API server refuses is tried again, ever less often."""

from __future__ import annotations

import asyncio
import time

import pytest

from tests.cluster.test_job_spec import item
from tf_malleable.cluster.job_spec import parse
from tf_malleable.cluster.kube import objects
from tf_malleable.cluster.kube.client import CallError
from tf_malleable.cluster.observe.job_cache import JobCache
from tf_malleable.cluster.reconcile.action_executor import ActionExecutor
from tf_malleable.cluster.reconcile.actions import CreatePod, EnsureDependents, TryPod
from tf_malleable.cluster.reconcile.reconciler import JobDecision
from tf_malleable.cluster.settings import Timings

PLACE = objects.NodePlace("n", "n")


class Server:
    """Refuses all that is created, or nothing."""

    def __init__(self, code=403, message="no"):
        self.error = CallError(code, "Forbidden", message)

    async def get(self, kind, namespace, name):
        raise CallError(404, "NotFound", "not found")

    async def create(self, kind, namespace, made, *, dry_run=False):
        if self.error is not None:
            raise self.error
        metadata = {**made["metadata"], "uid": "p", "resourceVersion": "1"}
        return {**made, "metadata": metadata, "spec": {"clusterIP": "10.0.0.1"}}


class Learner:
    def learn(self, item):
        pass


@pytest.fixture
def job(tmp_path):
    return parse(item(tmp_path))


def done(server, job, action, memory):
    executor = ActionExecutor(
        server, Learner(), Learner(), b"key", Timings(), lambda kind, result: None
    )
    asyncio.run(executor.carry_out(JobDecision(job, (action,)), memory, lambda: True))
    return memory.refused


def coordinator(job):
    return CreatePod(objects.coordinator_pod(job, 0, PLACE, is_first=True), "why", "because")


def worker(job):
    return CreatePod(objects.worker_pod(job, 0, PLACE, 1.0, "10.0.0.1"), "why", "because")


@pytest.mark.parametrize("kind", [coordinator, worker, lambda job: EnsureDependents()])
def test_the_delay_is_doubled_up_to_three_minutes(job, kind):
    server, memory = Server(), JobCache(address="10.0.0.1")
    delays = []
    for count in range(1, 9):
        before = time.time()
        found = done(server, job, kind(job), memory)
        assert found.count == count
        delays.append(found.until - before)
    assert [round(each / 5) * 5 for each in delays] == [5, 10, 20, 40, 80, 160, 180, 180]


def test_only_a_worker_that_is_created_ends_the_row(job):
    server, memory = Server(), JobCache(address="10.0.0.1")
    first = done(server, job, worker(job), memory)
    server.error = None
    assert done(server, job, TryPod(worker(job).pod), memory).is_allowed
    assert done(server, job, coordinator(job), memory).count == 1
    server.error = Server().error
    again = done(server, job, worker(job), memory)
    assert (again.count, again.since, again.is_allowed) == (2, first.since, False)
    server.error = None
    assert done(server, job, worker(job), memory) is None


@pytest.mark.parametrize(
    ("message", "reason"),
    [
        ("exceeded quota: q", "QuotaExceeded"),
        ("namespace a because it is being terminated", "NamespaceTerminating"),
        ("violates PodSecurity", "PodRefused"),
    ],
)
def test_the_reason_is_in_a_word(job, message, reason):
    assert done(Server(message=message), job, worker(job), JobCache()).reason == reason


def test_what_is_no_refusal_is_tried_again_soon(job):
    for code in (0, 409, 429, 500, 503):
        assert done(Server(code), job, worker(job), JobCache()) is None


def test_what_pods_need_is_there_at_last(job):
    server, memory = Server(), JobCache()
    assert not done(server, job, EnsureDependents(), memory).is_allowed
    server.error = None
    assert done(server, job, EnsureDependents(), memory).is_allowed
    # This says nothing of a pod.
    memory.refused = None
    server.error = Server().error
    done(server, job, worker(job), memory)
    server.error = None
    assert not done(server, job, EnsureDependents(), memory).is_allowed
