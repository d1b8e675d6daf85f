# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Decisions again and again, on a cluster of objects only: whatever happens, all comes to rest."""

from __future__ import annotations

import copy
import random

import pytest

from tests.cluster.test_job_spec import item
from tests.cluster.test_node_capacity import node, pod
from tf_malleable.cluster import resource_names
from tf_malleable.cluster.observe.node_affinity import (
    Amount,
    allocatable,
    has_ended,
    is_ready,
    requests,
)
from tf_malleable.cluster.observe.training_progress import MemberSeen, TrainingProgress
from tf_malleable.cluster.quantities import cores
from tf_malleable.cluster.reconcile.actions import (
    CreatePod,
    DeletePod,
    EnsureDependents,
    MarkPod,
    ResizePod,
    SetFinalizers,
)
from tf_malleable.cluster.reconcile.job_status import time_of
from tf_malleable.cluster.reconcile.reconciler import ClusterSnapshot, Reconciler
from tf_malleable.cluster.settings import Timings
from tf_malleable.policies import registry

BEGIN = 1.8e9


class Paper:
    """A cluster in which pods start, move and end at once, and nothing runs."""

    def __init__(self, folder, chance):
        self.chance, self.folder = chance, folder
        self.nodes, self.pods, self.jobs = {}, {}, {}
        self.now, self.version, self.uids = BEGIN, 1, 0
        self.decider = Reconciler(registry.create(registry.DEFAULT), Timings())
        self.moved = 0

    def touch(self, one):
        self.version += 1
        one["metadata"]["resourceVersion"] = str(self.version)

    def add_node(self):
        name = f"n{len(self.nodes)}"
        self.nodes[name] = node(name, str(self.chance.randint(1, 6)))
        self.touch(self.nodes[name])

    def add_job(self):
        name = f"j{len(self.jobs)}"
        most = self.chance.randint(1, 4)
        cpu = {"min": 1, "max": self.chance.randint(1, 3)}
        made = item(self.folder, workers={"min": 1, "max": most, "cpu": cpu})
        made["metadata"] |= {"name": name, "uid": f"uid-{name}"}
        made["metadata"]["creationTimestamp"] = time_of(self.now)
        made["spec"]["suspend"] = False
        self.touch(made)
        self.jobs[made["metadata"]["uid"]] = made

    def add_other(self):
        self.uids += 1
        made = pod(f"other{self.uids}", str(self.chance.randint(1, 2)), "", phase="Pending")
        made["metadata"]["creationTimestamp"] = time_of(self.now)
        self.put(made)

    def put(self, one):
        self.touch(one)
        self.pods[one["metadata"]["namespace"], one["metadata"]["name"]] = one

    def bound(self, name):
        return [p for p in self.pods.values() if p["spec"].get("nodeName") == name]

    def happen(self):
        """Have something happen."""
        kind = self.chance.choice(
            ("node", "job", "other", "other goes", "cordon", "dies", "crash", "suspend", "scale")
        )
        nodes = list(self.nodes.values())
        jobs = list(self.jobs.values())
        if kind == "node" and len(nodes) < 5:
            self.add_node()
        elif kind == "job" and len(jobs) < 4:
            self.add_job()
        elif kind == "other":
            self.add_other()
        elif kind == "other goes":
            others = [key for key, p in self.pods.items() if key[1].startswith("other")]
            if others:
                del self.pods[self.chance.choice(others)]
        elif kind == "cordon" and nodes:
            one = self.chance.choice(nodes)
            one["spec"]["unschedulable"] = not one["spec"].get("unschedulable")
            self.touch(one)
        elif kind == "dies" and len(nodes) > 1:
            name = self.chance.choice(list(self.nodes))
            for one in self.bound(name):
                del self.pods[one["metadata"]["namespace"], one["metadata"]["name"]]
            del self.nodes[name]
            self.nodes[name + "x"] = node(name + "x", "4")
            self.touch(self.nodes[name + "x"])
        elif kind == "crash":
            found = [
                p for p in self.pods.values() if resource_names.ROLE in p["metadata"]["labels"]
            ]
            found = [p for p in found if p["status"]["phase"] == "Running"]
            if found:
                self.end(self.chance.choice(found))
        elif kind == "suspend" and jobs:
            one = self.chance.choice(jobs)
            one["spec"]["suspend"] = not one["spec"]["suspend"]
            self.touch(one)
        elif kind == "scale" and jobs:
            one = self.chance.choice(jobs)
            one["spec"]["workers"]["max"] = self.chance.randint(1, 4)
            self.touch(one)

    def end(self, one):
        one["status"]["phase"] = "Failed"
        ended = {"exitCode": 137, "reason": "Error", "finishedAt": time_of(self.now)}
        for status in one["status"].get("containerStatuses", ()):
            status["state"] = {"terminated": ended}
        self.touch(one)

    def progress(self):
        found = {}
        for uid in self.jobs:
            workers = [
                one
                for one in self.pods.values()
                if one["metadata"]["labels"].get(resource_names.ROLE) == resource_names.WORKER
                and one["metadata"]["ownerReferences"][0]["uid"] == uid
                and one["status"]["phase"] == "Running"
            ]
            members = tuple(
                MemberSeen(one["metadata"]["uid"], "worker", True, False, 1) for one in workers
            )
            step = int(self.now - BEGIN)
            if members:
                found[uid] = TrainingProgress("steady", 1, step, step, None, None, members)
        return found

    def step(self):
        """Decide once, carry it out, and let the cluster follow; return how many pods changed."""
        scene = ClusterSnapshot(
            tuple(copy.deepcopy(list(self.jobs.values()))),
            tuple(copy.deepcopy(list(self.pods.values()))),
            tuple(copy.deepcopy(list(self.nodes.values()))),
            (),
            self.progress(),
            self.now,
        )
        decision = self.decider.decide(scene)
        changed = 0
        for uid, each in decision.jobs.items():
            holders = scene.progress[uid].holders if uid in scene.progress else frozenset()
            for action in each.actions:
                changed += isinstance(action, CreatePod | DeletePod | ResizePod)
                self.carry_out(uid, action)
            left = {one["metadata"]["uid"] for one in self.pods.values()}
            if each.workers and holders:
                assert holders & left, "the last with the state was sent away"
        self.follow()
        self.now += 1.0
        return changed

    def carry_out(self, uid, action):
        job = self.jobs[uid]
        if isinstance(action, EnsureDependents):
            self.decider.memories[uid].address = "10.0.0.1"
        elif isinstance(action, SetFinalizers):
            job["metadata"]["finalizers"] = list(action.finalizers)
        elif isinstance(action, CreatePod):
            made = copy.deepcopy(action.pod)
            metadata = made["metadata"]
            assert (metadata["namespace"], metadata["name"]) not in self.pods
            self.uids += 1
            metadata |= {"uid": f"pod{self.uids}", "creationTimestamp": time_of(self.now)}
            made["status"] = {"phase": "Pending"}
            self.put(made)
        else:
            self.change(action)

    def change(self, action):
        pod = getattr(action, "pod", None)
        key = ("default", pod.name) if pod is not None else None
        if isinstance(action, DeletePod):
            del self.pods[key]
        elif isinstance(action, ResizePod):
            resources = self.pods[key]["spec"]["containers"][0]["resources"]
            for kind in ("requests", "limits"):
                resources[kind]["cpu"] = cores(action.cpus)
            self.touch(self.pods[key])
        elif isinstance(action, MarkPod):
            for kind, values in action.metadata.items():
                found = self.pods[key]["metadata"].setdefault(kind, {})
                for name, value in values.items():
                    found[name] = value
                    if value is None:
                        del found[name]
            self.touch(self.pods[key])

    def follow(self):
        """Bind what fits, and have it run."""
        for one in self.pods.values():
            spec, status = one["spec"], one["status"]
            if has_ended(one):
                continue
            wanted = one["metadata"].get("annotations", {}).get(resource_names.NODE)
            if not spec.get("nodeName"):
                found = [n for n in self.nodes if wanted in (None, n)]
                found = [n for n in found if is_ready(self.nodes[n])]
                found = [n for n in found if not self.nodes[n]["spec"].get("unschedulable")]
                found = [n for n in found if self.free(n).holds(requests(one))]
                if not found:
                    why = "0/1 nodes are available: 1 Insufficient cpu."
                    status["conditions"] = [
                        {"type": "PodScheduled", "status": "False", "message": why}
                    ]
                    self.touch(one)
                    continue
                spec["nodeName"] = found[0]
            status |= {"phase": "Running", "podIP": "10.1.1.1", "conditions": []}
            status["containerStatuses"] = [
                {
                    "name": container["name"],
                    "state": {"running": {}},
                    "resources": container["resources"],
                    "allocatedResources": container["resources"].get("requests", {}),
                }
                for container in copy.deepcopy(spec["containers"])
            ]
            self.touch(one)

    def free(self, name):
        used = [requests(one) for one in self.bound(name) if not has_ended(one)]
        return allocatable(self.nodes[name]) - sum(used, Amount())


# These once did not, see test_planner.py and test_pacing.py.
ONCE = (86, 126, 205, 212, 246, 286)


@pytest.mark.parametrize("seed", [*range(25), *ONCE])
def test_all_comes_to_rest_with_no_node_too_full(tmp_path, seed):
    chance = random.Random(seed)
    paper = Paper(tmp_path, chance)
    paper.add_node()
    paper.add_job()
    for _ in range(14):
        paper.happen()
        for _ in range(chance.randint(1, 4)):
            paper.step()
            assert all(paper.free(name).cpus >= 0 for name in paper.nodes)
    # Longer than anything is avoided, waited for or forgotten.
    paper.now += 400
    history = [paper.step() for _ in range(60)]
    assert history[-15:] == [0] * 15, history
    for one in paper.pods.values():
        if one["metadata"]["labels"].get(
            resource_names.ROLE
        ) == resource_names.WORKER and not has_ended(one):
            assert one["status"]["phase"] == "Running"
