# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""A site on somebody's cluster: its nodes are those that are there, as if they were small.

What a test calls a node is one of the cluster's, with a label that the test's pods select, and with
a pod that requests all of its CPUs but as many as the test wants. Nothing of others is touched:
of their nodes only this label and, where a test says so, whether new pods may come.
"""

from __future__ import annotations

import json
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from tests.support import ROOT
from tests.support.elastic_training import STEPS
from tests.support.kubernetes.refusals import RefusedError
from tests.support.operators import JOBS, Object, Site
from tests.support.real_cluster import RealClient
from tf_malleable.cli.cluster.install import manifests
from tf_malleable.cluster import resource_names
from tf_malleable.cluster.observe.node_affinity import (
    Amount,
    allocatable,
    has_ended,
    is_cordoned,
    is_ready,
    may_be_on,
    requests,
)
from tf_malleable.cluster.quantities import cores

LABEL = "tf-malleable.dev/test"
_PROGRAM = ROOT / "tests" / "support" / "elastic_training.py"
# The operator there is as patient as operators are, and images are yet to be pulled.
_SECONDS = 300.0
# A kubelet looks for changed files that often, unless it has something else to do for the pod.
_STEPS_SECONDS = 120.0
# The end of the name of what says when a training ends.
_STEPS = "-steps"


class RealNodes:
    """The nodes of a cluster that a test has, each by the name that is the cluster's.

    Args:
        client: Client of the cluster.
        image: That its nodes can pull.
    """

    def __init__(self, client: RealClient, image: str) -> None:
        self._client, self._image = client, image
        self._names: list[str] = []

    def take(self, cpus: float) -> str:
        """Have one more node, with so many free CPUs; return its name."""
        wanted = Amount(cpus, 2.0**30, 10)
        free = {name: one for name, one in self._free().items() if name not in self._names}
        fitting = [name for name, one in free.items() if one.holds(wanted)]
        if not fitting:
            pytest.skip(f"needs {len(self._names) + 1} nodes with {cpus:g} free CPUs")
        name = min(fitting, key=lambda name: (free[name].cpus, name))
        if free[name].cpus - cpus >= 0.01:
            self._fill(name, free[name].cpus - cpus)
        self._client.patch("nodes", name, {"metadata": {"labels": {LABEL: self._client.namespace}}})
        self._names.append(name)
        return name

    def cordon(self, name: str, *, on: bool = True) -> None:
        """Take no more pods on a node, or take some again."""
        assert name in self._names
        self._client.patch("nodes", name, {"spec": {"unschedulable": on or None}})

    def drain(self, name: str) -> list[str]:
        """Cordon a node and evict the test's pods; return those that a budget keeps."""
        self.cordon(name)
        kept = []
        for pod in self.pods(name):
            try:
                self._client.evict(pod["metadata"]["name"])
            except RefusedError as refusal:
                if refusal.code not in (404, 429):
                    raise
                kept += [pod["metadata"]["name"]] if refusal.code == 429 else []
        return kept

    def pods(self, name: str) -> list[Object]:
        """Return the pods of jobs of the test on a node."""
        where = f"spec.nodeName={name}"
        return self._client.list("pods", labelSelector=resource_names.JOB, fieldSelector=where)

    def log(self, pod: str) -> str:
        """Return what a pod's first container has printed."""
        return self._client.log(pod)

    def close(self) -> None:
        """Leave the nodes as they were."""
        for name in self._names:
            self.cordon(name, on=False)
            self._client.patch("nodes", name, {"metadata": {"labels": {LABEL: None}}})

    def _free(self) -> dict[str, Amount]:
        """Return what is free on nodes that are open for pods like ours."""
        nodes = {node["metadata"]["name"]: node for node in self._client.list("nodes")}
        free = {
            name: allocatable(node)
            for name, node in nodes.items()
            if is_ready(node) and not is_cordoned(node) and may_be_on({}, node)
        }
        for pod in self._client.everywhere("pods"):
            where = pod["spec"].get("nodeName", "")
            if where in free and not has_ended(pod):
                free[where] -= requests(pod)
        return free

    def _fill(self, node: str, cpus: float) -> None:
        """Have a pod request so many CPUs of a node, and use none."""
        made = idle(f"fill-{len(self._names)}", self._image, cores(cpus))
        made["spec"]["nodeSelector"] = {"kubernetes.io/hostname": self._hostname(node)}
        self._client.create(made)

    def _hostname(self, node: str) -> str:
        labels = self._client.get("nodes", node)["metadata"].get("labels") or {}
        return str(labels.get("kubernetes.io/hostname", node))


class RealSite(Site):
    """Trainings under an operator that is installed in a cluster.

    Args:
        client: Client of the cluster.
        image: Image of the operator and the workers.
        folder: For what a test writes.
    """

    def __init__(self, client: RealClient, image: str, folder: Path) -> None:
        self.client, self.folder, self._image = client, folder, image
        self.seconds = _SECONDS
        self.nodes = RealNodes(client, image)
        self._operators = []
        program = {"elastic_training.py": _PROGRAM.read_text()}
        client.apply(_config("program", program), force="true")

    def start(self, **more: Any) -> None:
        """Install the operator; it is the one of this version."""
        assert not more
        for item in manifests(image=self._image):
            self.client.apply(item, force="true")

    def close(self) -> None:
        """Delete the test's jobs and pods, and leave the nodes as they were."""
        for job in self.client.list(JOBS):
            with suppress(RefusedError):  # It has just gone.
                self.client.delete(JOBS, job["metadata"]["name"])
        self.nodes.close()
        self.wait(lambda: not self.client.list(JOBS))
        for pod in self.client.list("pods"):
            name = pod["metadata"]["name"]
            with suppress(RefusedError):  # It has just gone.
                # A test that has failed may have left a finalizer.
                self.client.patch("pods", name, {"metadata": {"finalizers": None}})
                self.client.delete("pods", name, gracePeriodSeconds=0)
        for config in self.client.list("configmaps"):
            # The next test's training of that name would end when this one's should.
            if config["metadata"]["name"].endswith(_STEPS):
                self.client.delete("configmaps", config["metadata"]["name"])
        self.wait(lambda: not self.client.list("pods"))

    def node(self, name: str, cpus: float) -> str:
        """Have one more node with so many free CPUs; return what it is called."""
        return self.nodes.take(cpus)

    def other(self, name: str, cpus: str) -> None:
        """Have somebody else's pod that wants CPUs of the test's nodes."""
        made = idle(name, self._image, cpus)
        made["spec"]["nodeSelector"] = {LABEL: self.client.namespace}
        self.client.create(made)

    def kill(self, pod: Object) -> None:
        """End a pod at once; processes of other machines cannot be killed."""
        metadata = pod["metadata"]
        options = {"uid": metadata["uid"]}
        self.client.delete("pods", metadata["name"], gracePeriodSeconds=0, preconditions=options)

    def make(self, name: str, *, seconds: float = 0.02, **spec: Any) -> Object:
        """Return a job, of which nobody knows yet."""
        made = super().make(name, seconds=seconds, **spec)
        template = made["spec"]["template"]["spec"]
        template["nodeSelector"] = {LABEL: self.client.namespace}
        template["securityContext"] = {"runAsNonRoot": True, "runAsUser": 65532}
        (container,) = template["containers"]
        words = ["tfm", "run", "--", "python", "/program/elastic_training.py", "/tmp"]
        options = container["command"][container["command"].index("--words") :]
        container |= {"image": self._image, "command": [*words, "--steps-in", "/said", *options]}
        container["workingDir"] = "/tmp"
        container["resources"] = {"limits": {"memory": "1Gi"}}
        places = {"program": "program", "said": _steps(name)}
        container["volumeMounts"] = [{"name": one, "mountPath": f"/{one}"} for one in places]
        template["volumes"] = [
            {"name": volume, "configMap": {"name": config, "optional": True}}
            for volume, config in places.items()
        ]
        return made

    def end(self, name: str = "t", ahead: int = 100) -> int:
        """Decide when a training ends, so far ahead that all workers hear of it before."""

        def speed_now() -> float:
            return float(self.status(name).get("progress", {}).get("stepsPerSecond", 0.0))

        speed = self.wait(speed_now, name)
        step = self.step(name) + max(ahead, int(speed * _STEPS_SECONDS))
        self.set_steps(name, step)
        for pod in self.pods(name):
            said = {"metadata": {"annotations": {f"{LABEL}-steps": str(step)}}}
            with suppress(RefusedError):
                self.client.patch("pods", pod["metadata"]["name"], said)
        return step

    def set_steps(self, name: str, step: int) -> None:
        """Write down when a training ends, of which its workers hear after a while."""
        self.client.apply(_config(_steps(name), {STEPS: str(step)}), force="true")

    def said(self, name: str) -> list[Object]:
        """Return what the workers have said at their end."""
        selector = f"{resource_names.JOB}={name},{resource_names.ROLE}={resource_names.WORKER}"
        lines = [
            line
            for pod in self.client.list("pods", labelSelector=selector)
            for line in self.client.log(pod["metadata"]["name"]).splitlines()
        ]
        return [json.loads(line) for line in lines if line.startswith('{"how"')]

    def is_undisturbed(self, digests: set[str], step: int, shards: int) -> bool:
        """Return whether all ended alike; sines of other CPUs have other last bits."""
        return len(digests) == 1


def idle(name: str, image: str, cpus: str) -> Object:
    """Return a pod that requests CPUs and uses none."""
    container = {
        "name": "main",
        "image": image,
        "command": ["sleep", "86400"],
        "resources": {"requests": {"cpu": cpus}},
    }
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name},
        # With its own, the program would be its first process, which SIGTERM does not end.
        "spec": {
            "restartPolicy": "Never",
            "shareProcessNamespace": True,
            "containers": [container],
        },
    }


def _config(name: str, data: dict[str, str]) -> Object:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": data}


def _steps(name: str) -> str:
    return f"{name}{_STEPS}"
