# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Whatever one job, its pods or its coordinator say: an innocent neighbour still trains."""

from __future__ import annotations

import copy

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.cluster.test_node_capacity import node
from tests.cluster.test_reconciler import NOW, job, member, of
from tf_malleable.cluster import resource_names
from tf_malleable.cluster.observe.training_progress import read
from tf_malleable.cluster.reconcile.actions import CreatePod, SetFinalizers, WriteStatus
from tf_malleable.cluster.reconcile.reconciler import ClusterSnapshot, Reconciler
from tf_malleable.cluster.settings import Timings
from tf_malleable.policies import registry

NUMBERS = st.one_of(
    st.integers(-3, 9), st.sampled_from([10**30, 1e300, float("inf"), -0.5, 2.5, 2**63])
)
TEXTS = st.one_of(
    st.text(max_size=4), st.sampled_from(["1e400", "-1", "2", "9" * 5000, "500m", "tfm", "²"])
)
PLAIN = st.one_of(st.none(), st.booleans(), NUMBERS, TEXTS)
VALUES = st.recursive(
    PLAIN,
    lambda inner: st.one_of(
        st.lists(inner, max_size=2),
        st.dictionaries(st.sampled_from(["name", "cpu", "key", "min", "x"]), inner, max_size=2),
    ),
    max_leaves=4,
)
CONTAINER = "spec.template.spec.containers.0"
FIELDS = [
    "spec",
    "spec.suspend",
    "spec.managedBy",
    "spec.priority",
    "spec.shards",
    *(f"spec.workers{each}" for each in ("", ".min", ".max", ".cpu", ".cpu.min", ".cpu.max")),
    *(f"spec.parameterServers{each}" for each in ("", ".min", ".max", ".cpu")),
    *(f"spec.checkpoint{each}" for each in ("", ".path", ".everySeconds")),
    "spec.backoffLimit",
    "spec.template",
    "spec.template.metadata",
    "spec.template.metadata.labels",
    "spec.template.metadata.annotations",
    "spec.template.spec",
    "spec.template.spec.containers",
    *(
        f"spec.template.spec.{each}"
        for each in (
            "affinity",
            "affinity.nodeAffinity",
            "affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution",
            "affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms",
            "initContainers",
            "nodeSelector",
            "overhead",
            "securityContext",
            "tolerations",
        )
    ),
    CONTAINER,
    *(
        f"{CONTAINER}.{each}"
        for each in (
            "name", "env", "resources", "resources.limits", "resources.requests.cpu",
            "resizePolicy", "securityContext", "image",
        )
    ),
]  # fmt: skip
ANNOTATIONS = [resource_names.ADMITTED, resource_names.ELASTIC]
ANSWER = {
    "phase": "steady",
    "generation": 1,
    "step": 7,
    "steps_done": 7,
    "steps_total": 100,
    "steps_per_second": 2.0,
    "processes": [
        {
            "place": "t-worker-0/bad-worker-0",
            "role": "worker",
            "state": "in the training",
            "leaving": False,
            "shards": 4,
        }
    ],
    "rescales": [
        {
            "number": 1,
            "at": NOW,
            "workers_from": 0,
            "workers_to": 1,
            "servers_from": 0,
            "servers_to": 0,
            "pause_seconds": 0.5,
            "reason": "start",
        }
    ],
}


def put(item, path, value):
    """Set a value at a path, as far as there is a way to it."""
    *holders, last = path.split(".")
    for name in holders:
        if isinstance(item, list):
            item = item[0] if item and name == "0" else None
        elif isinstance(item, dict):
            item = item.setdefault(name, {})
    if isinstance(item, dict):
        item[last] = value
    elif isinstance(item, list) and item:
        item[0] = value


def innocent_begins(tmp_path_factory, bad, pods=(), progress=None):
    """Return the decision about a bad job, beside which another one begins."""
    good = job(tmp_path_factory.getbasetemp(), "good")
    reconciler = Reconciler(registry.create(registry.DEFAULT), Timings())
    for each in (bad, good):
        reconciler.memories[each["metadata"]["uid"]].address = "10.0.0.1"
    said = {} if progress is None else {"uid-bad": progress}
    scene = ClusterSnapshot((good, bad), tuple(pods), (node(cpus="2000"),), (), said, NOW)
    found = reconciler.decide(scene).jobs
    assert of(found["uid-good"], CreatePod)
    return found.get("uid-bad")


def names_a_field(decision):
    (write,) = of(decision, WriteStatus)
    (valid,) = [one for one in write.change["conditions"] if one["type"] == "Valid"]
    return valid["status"] == "False" and ("spec" in valid["message"])


@pytest.mark.slow
@settings(max_examples=400)
@given(
    st.dictionaries(st.sampled_from(FIELDS), VALUES, min_size=1, max_size=3),
    st.dictionaries(st.sampled_from(ANNOTATIONS), TEXTS),
    st.booleans(),
)
def test_any_spec(tmp_path_factory, fields, annotations, trains):
    bad = job(tmp_path_factory.getbasetemp(), "bad")
    pods = [member(bad), member(bad, role=resource_names.COORDINATOR)] if trains else []
    bad["metadata"]["annotations"] = annotations
    for path, value in fields.items():
        put(bad, path, copy.deepcopy(value))
    found = innocent_begins(tmp_path_factory, bad, pods)
    # It is carried out, or it is somebody else's, or it is said which field is wrong.
    assert found is None or found.judgement is not None or names_a_field(found)


@pytest.mark.slow
@settings(max_examples=200)
@given(
    st.dictionaries(
        st.sampled_from([resource_names.FAILURE, resource_names.NODE]), TEXTS, max_size=2
    ),
    st.sampled_from(["Pending", "Running", "Succeeded", "Failed", "Unknown"]),
    st.dictionaries(st.sampled_from(["running", "waiting", "terminated"]), st.just({}), max_size=1),
)
def test_any_pod(tmp_path_factory, annotations, phase, state):
    bad = job(tmp_path_factory.getbasetemp(), "bad")
    worker = member(bad, phase=phase, state=state)
    worker["metadata"]["annotations"] = annotations
    found = innocent_begins(tmp_path_factory, bad, [worker])
    assert found.judgement is not None


def test_a_pod_that_nobody_can_read(tmp_path_factory):
    bad = job(tmp_path_factory.getbasetemp(), "bad")
    worker = member(bad)
    worker["metadata"]["creationTimestamp"] = "yesterday"
    found = innocent_begins(tmp_path_factory, bad, [worker])
    (write,) = of(found, WriteStatus)
    assert "bad-worker-0 cannot be read" in str(write.change["conditions"])


def test_a_bad_job_that_is_deleted_can_go(tmp_path_factory):
    bad = job(tmp_path_factory.getbasetemp(), "bad")
    bad["metadata"]["deletionTimestamp"] = "2026-01-02T03:04:05Z"
    bad["status"] = {"conditions": [{}]}
    found = innocent_begins(tmp_path_factory, bad)
    assert of(found, SetFinalizers) == [SetFinalizers(())]


@pytest.mark.slow
@settings(max_examples=300)
@given(
    st.dictionaries(
        st.sampled_from(
            [*ANSWER, *(f"processes.0.{each}" for each in ANSWER["processes"][0])]
            + [f"rescales.0.{each}" for each in ANSWER["rescales"][0]]
        ),
        VALUES,
        min_size=1,
        max_size=3,
    )
)
def test_any_answer_of_a_coordinator(tmp_path_factory, fields):
    bad = job(tmp_path_factory.getbasetemp(), "bad")
    pods = [member(bad), member(bad, role=resource_names.COORDINATOR)]
    answer = copy.deepcopy(ANSWER)
    for path, value in fields.items():
        put(answer, path, copy.deepcopy(value))
    try:
        progress = read(answer)
    except (AttributeError, KeyError, TypeError, ValueError):
        return  # As the poller does, which asks again.
    found = innocent_begins(tmp_path_factory, bad, pods, progress)
    assert found.judgement is not None
