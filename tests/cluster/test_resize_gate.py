# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Workers grow only into CPUs that are free by now, whatever the plan expects of others."""

from __future__ import annotations

import pytest

from tests.cluster.test_node_capacity import node, pod
from tf_malleable.cluster.job_spec import JobSpec
from tf_malleable.cluster.observe.pod_status import PodStatus
from tf_malleable.cluster.reconcile.actions import DeletePod, EmitEvent, ResizePod
from tf_malleable.cluster.reconcile.resize_gate import paced

NODES = {"n": node("n", "4"), "m": node("m", "4")}


def resize(name, before, after, where="n"):
    seen = PodStatus(name, name, "worker", 0, where, cpus=before, allocated=before)
    return ResizePod(seen, "train", after)


def held(doing, *pods, overhead="0"):
    side = {"name": "side", "resources": {"requests": {"cpu": overhead}}}
    template = {"spec": {"containers": [{"name": "train"}, side]}}
    jobs = {uid: JobSpec(uid, uid, "default", template=template) for uid in doing}
    done = paced(doing, jobs, NODES, pods)
    assert done.keys() == doing.keys()
    return [one for uid, each in doing.items() for one in each if one not in done[uid]]


def leaving(name, cpus):
    return pod(name, cpus, owner="j", deletionTimestamp="2026-01-02T03:04:05Z")


def test_growth_waits_for_those_that_leave():
    more = resize("a", 1.0, 3.0)
    others = [EmitEvent("Said", "before"), EmitEvent("Said", "after")]
    doing = {"j": [others[0], more, others[1]]}
    assert held(doing, pod("a", "1", owner="j"), leaving("b", "2")) == [more]
    assert held(doing, pod("a", "1", owner="j"), leaving("b", "1")) == []
    assert held(doing, pod("a", "1", owner="j"), pod("b", "2", phase="Failed")) == []


def test_one_that_is_deleted_now_has_its_cpus_still():
    more, seen = resize("a", 1.0, 3.0), PodStatus("b", "b", "worker", 1, "n", cpus=2.0)
    doing = {"j": [DeletePod(seen, "WorkerLeaves"), more]}
    assert held(doing, pod("a", "1", owner="j"), pod("b", "2", owner="j")) == [more]


@pytest.mark.parametrize("order", [1, -1])
def test_cpus_that_others_give_back_now_can_be_had(order):
    doing = {"i": [resize("a", 1.0, 3.0)], "j": [resize("b", 3.0, 1.0)]}
    doing = dict(list(doing.items())[::order])
    assert held(doing, pod("a", "1", owner="i"), pod("b", "3", owner="j")) == []


def test_what_does_not_fit_together_waits_in_part():
    doing = {"i": [resize("a", 1.0, 2.0)], "j": [resize("b", 1.0, 2.0)]}
    assert held(doing, *(pod(name, "1") for name in "abc")) == [doing["j"][0]]


def test_other_nodes_do_not_matter():
    doing = {"j": [resize("a", 1.0, 4.0, "m")]}
    assert held(doing, pod("a", "1", "m"), pod("b", "4", "n")) == []


def test_a_node_that_is_gone_is_left_to_the_server():
    doing = {"j": [resize("a", 1.0, 4.0, "gone")]}
    assert held(doing, pod("a", "1", "gone")) == []


def test_other_containers_count():
    doing = {"j": [resize("a", 2.0, 3.0)]}
    assert held(doing, pod("a", "2")) == []
    assert held(doing, pod("a", "2"), overhead="2") == doing["j"]
