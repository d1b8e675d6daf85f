# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Decisions about whole clusters, of objects only."""

from __future__ import annotations

import pytest

from tests.cluster.test_job_spec import item
from tests.cluster.test_node_capacity import node, pod
from tf_malleable.cluster import resource_names
from tf_malleable.cluster.observe.job_cache import ApiRefusal
from tf_malleable.cluster.observe.job_state import TRAINED
from tf_malleable.cluster.reconcile.actions import (
    DeletePod,
    EnsureDependents,
    SetFinalizers,
    WriteStatus,
)
from tf_malleable.cluster.reconcile.reconciler import ClusterSnapshot, Reconciler
from tf_malleable.cluster.settings import Timings
from tf_malleable.policies import registry

NOW = 1.8e9


def job(tmp_path, name="t", **spec):
    made = item(tmp_path, **spec)
    made["metadata"] |= {"name": name, "uid": f"uid-{name}"}
    made["metadata"]["finalizers"] = [resource_names.FINALIZER]
    return made


def member(job, number=0, *, role=resource_names.WORKER, state=None, phase="Running"):
    name, uid = job["metadata"]["name"], job["metadata"]["uid"]
    made = pod(f"{name}-{role}-{number}", "1", owner=uid, phase=phase, resourceVersion="1")
    labels = {resource_names.JOB: name, resource_names.ROLE: role}
    made["metadata"]["labels"] = {**labels, resource_names.MEMBER: str(number)}
    made["status"]["containerStatuses"] = [{"name": "c", "state": state or {"running": {}}}]
    return made


def decided(jobs, pods=(), reconciler=None, now=NOW, only_in=None):
    reconciler = reconciler or Reconciler(registry.create(registry.DEFAULT), Timings())
    for each in jobs:
        reconciler.memories[each["metadata"]["uid"]].address = "10.0.0.1"
    scene = ClusterSnapshot(tuple(jobs), tuple(pods), (node(cpus="8"),), (), {}, now, None, only_in)
    return reconciler.decide(scene).jobs


def of(decision, kind):
    return [each for each in decision.actions if isinstance(each, kind)]


@pytest.mark.parametrize("others", [[], ["late"]])
def test_an_end_is_in_the_status_before_anything_is_deleted(tmp_path, others):
    mine = job(tmp_path)
    ended = {"terminated": {"exitCode": 0, "finishedAt": "2026-01-02T03:04:05Z"}}
    pods = [
        member(mine, state=ended),
        member(mine, role=resource_names.COORDINATOR),
        *(member(mine, 1, state={"waiting": {}}, phase="Pending") for _ in others),
    ]
    first = decided([mine], pods)["uid-t"]
    assert not of(first, DeletePod) + of(first, SetFinalizers)
    (write,) = of(first, WriteStatus)
    assert TRAINED in {one["type"] for one in write.change["conditions"]}
    assert (write.change["phase"] == "Succeeded") is not bool(others)
    mine["status"] = write.change
    gone = {each.pod.name for each in of(decided([mine], pods)["uid-t"], DeletePod)}
    assert gone == ({"t-worker-1"} if others else {"t-coordinator-0"})


def test_jobs_of_another_namespace_are_those_of_somebody_else(tmp_path):
    mine, other = job(tmp_path, "mine"), job(tmp_path, "other")
    other["metadata"]["namespace"] = "elsewhere"
    assert decided([mine, other]).keys() == {"uid-mine", "uid-other"}
    found = decided([mine, other], only_in="default")
    assert found.keys() == {"uid-mine"}
    # What its workers request is not for mine.
    taken = member(other)
    taken["metadata"]["namespace"] = "elsewhere"
    taken["spec"]["containers"][0]["resources"]["requests"]["cpu"] = "8"
    assert found["uid-mine"].workers
    assert not decided([mine, other], [taken], only_in="default")["uid-mine"].workers


@pytest.mark.parametrize(
    ("reason", "is_allowed", "phase"),
    [
        ("PodRefused", False, "Failed"),
        ("DependentsRefused", False, "Failed"),
        ("QuotaExceeded", False, "Pending"),
        ("NamespaceTerminating", False, "Pending"),
        # It would be admitted now, and waits for CPUs.
        ("PodRefused", True, "Pending"),
    ],
)
def test_a_job_fails_for_what_will_not_change_by_itself(tmp_path, reason, is_allowed, phase):
    mine, timings = job(tmp_path), Timings()
    mine["metadata"]["generation"] = 1
    reconciler = Reconciler(registry.create(registry.DEFAULT), timings)
    refusal = ApiRefusal(reason, "no", 1, NOW - timings.stuck - 1, 9, NOW + 1, None, is_allowed)
    reconciler.memories["uid-t"].refused = refusal
    (write,) = of(decided([mine], reconciler=reconciler)["uid-t"], WriteStatus)
    assert write.change["phase"] == phase


@pytest.mark.parametrize("wait", [-1.0, 1.0])
def test_what_pods_need_is_tried_again_without_cpus(tmp_path, wait):
    """Or else workers of others would leave for each try."""
    mine = job(tmp_path)
    mine["metadata"]["generation"] = 1
    reconciler = Reconciler(registry.create(registry.DEFAULT), Timings())
    refusal = ApiRefusal("DependentsRefused", "no", 1, NOW - 9.0, 2, NOW + wait)
    reconciler.memories["uid-t"].refused = refusal
    found = decided([mine], reconciler=reconciler)["uid-t"]
    assert not found.workers
    assert len(of(found, EnsureDependents)) == (wait < 0)
