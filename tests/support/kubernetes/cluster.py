# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""A whole cluster in this process: API server, controllers, nodes that run real processes."""

from __future__ import annotations

import json
import random
import time
from collections.abc import Callable, Iterable
from itertools import count
from pathlib import Path
from typing import Any

import yaml

from tests.support.kubernetes import kinds
from tests.support.kubernetes.api import Api
from tests.support.kubernetes.authorization import ADMIN, Call, User, system
from tests.support.kubernetes.client import Client
from tests.support.kubernetes.environment import Images
from tests.support.kubernetes.garbage import Collector
from tests.support.kubernetes.kubelet import Kubelet
from tests.support.kubernetes.lifecycle import Lifecycle, Timings, of_pods_and
from tests.support.kubernetes.loops import Loop
from tests.support.kubernetes.proxy import Proxy
from tests.support.kubernetes.refusals import RefusedError
from tests.support.kubernetes.scheduler import Scheduler
from tests.support.kubernetes.server import Server

Object = dict[str, Any]


class Cluster:
    """A cluster, which ends with the block that it is used for.

    Attributes:
        client: Calls its API as an administrator, without HTTP.
        server: Its API server; faults are in `server.faults`.
        timings: How long things take.
        images: What images containers are made from.
    """

    def __init__(self, folder: Path, timings: Timings | None = None) -> None:
        """Start one without nodes.

        Args:
            folder: For what containers print, and kubeconfigs.
            timings: How long things take.
        """
        self.folder, self.timings = folder, timings or Timings()
        self.api = Api()
        self.server = Server(self.api)
        self.server.log = self._log
        self.client = Client(self.api)
        self.images = Images()
        self._kubelets: dict[str, Kubelet] = {}
        self._nodes: dict[str, Object] = {}
        # Clusters of other tests beside this one have addresses of their own.
        self._next = count(random.randrange(1 << 20))
        self._proxy = Proxy(Client(self.api, system("kube-proxy")))
        self._loops = self._start_loops()

    def __enter__(self) -> Cluster:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """End it, with all processes of its pods.

        Raises:
            RuntimeError: A part of it broke, which is a fault of this fake.
        """
        loops, self._loops = self._loops, []
        kubelets, self._kubelets = self._kubelets, {}
        for loop in loops:
            loop.stop()
        for kubelet in kubelets.values():
            if kubelet.died is None or kubelet.is_frozen:
                kubelet.die()
        self.server.close()
        if loops:
            self._proxy.close()
        said = [loop.broken for loop in loops] + [kubelet.broken for kubelet in kubelets.values()]
        broken = [text for text in said if text]
        if broken:
            raise RuntimeError("\n".join(broken))

    def _start_loops(self) -> list[Loop]:
        def client(name: str) -> Client:
            return Client(self.api, system(f"kube-{name}"))

        manager = client("controller-manager")
        lifecycle = Lifecycle(self.api, manager, self.timings, self._silence)
        scheduler = Scheduler(client("scheduler"), lambda: self.timings.requeue)
        steps: list[tuple[str, Callable[[], float | None], Callable[[Any], bool]]] = [
            ("scheduler", scheduler.step, of_pods_and(kinds.NODES)),
            ("garbage", Collector(self.api, manager).step, lambda change: True),
            ("lifecycle", lifecycle.step, of_pods_and(kinds.NODES)),
            ("proxy", self._proxy.step, lambda change: change.key[0] == kinds.SERVICES),
            ("statuses", lifecycle.write_statuses, of_pods_and(kinds.BUDGETS, kinds.QUOTAS)),
        ]
        return [Loop(self.api, name, step, concerns) for name, step, concerns in steps]

    def add_node(
        self,
        name: str,
        cpus: float = 4,
        *,
        memory: str = "8Gi",
        pods: int = 110,
        labels: dict[str, str] | None = None,
        taints: Iterable[Object] = (),
    ) -> Kubelet:
        """Add a node, and return its kubelet."""
        resources = {"cpu": str(cpus), "memory": memory, "pods": str(pods)}
        taints = list(taints)
        self._nodes[name] = {
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": {
                "name": name,
                "labels": {"kubernetes.io/hostname": name, **(labels or {})},
            },
            "spec": {"taints": taints} if taints else {},
            "status": {"capacity": resources, "allocatable": resources},
        }
        return self.restart_node(name)

    def restart_node(self, name: str) -> Kubelet:
        """Start a node that was killed or frozen, and return its kubelet."""
        if name in self._kubelets and self._kubelets[name].is_frozen:
            self.kill_node(name)
        self._kubelets[name] = Kubelet(
            self.api,
            self._nodes[name],
            self.folder / "pods",
            self.images,
            self.timings,
            self._address,
        )
        return self._kubelets[name]

    def kill_node(self, name: str) -> None:
        """Kill a node with all that runs there: it is NotReady soon, and its pods are deleted."""
        self._kubelets[name].die()

    def freeze_node(self, name: str) -> None:
        """Have a node fall silent with all that runs there: no connection breaks."""
        self._kubelets[name].freeze()

    def remove_node(self, name: str) -> None:
        """Kill a node and remove its object, as when a cloud has taken the machine back."""
        self.kill_node(name)
        self.client.delete("nodes", name)

    def cordon(self, name: str, *, on: bool = True) -> None:
        """Take no more pods on a node, or take some again."""
        self.client.patch("nodes", name, {"spec": {"unschedulable": on or None}})

    def drain(self, name: str) -> list[str]:
        """Cordon a node and evict its pods; return those that a budget keeps, for another try."""
        self.cordon(name)
        kept = []
        for pod in self.client.list("pods", fieldSelector=f"spec.nodeName={name}"):
            metadata = pod["metadata"]
            try:
                self.client.evict(metadata["name"], metadata["namespace"])
            except RefusedError as refusal:
                if refusal.code != 429:
                    raise
                kept.append(metadata["name"])
        return kept

    def pods(self, name: str) -> list[Object]:
        """Return the pods on a node."""
        return self.client.list("pods", fieldSelector=f"spec.nodeName={name}")

    def apply(self, manifests: str) -> list[Object]:
        """Create the objects of YAML documents, or replace those that are there."""
        return [self._apply(item) for item in yaml.safe_load_all(manifests) if item]

    def _apply(self, item: Object) -> Object:
        try:
            return self.client.create(item)
        except RefusedError as refusal:
            if refusal.reason != "AlreadyExists":
                raise
        resource = self.api.catalogue.of_kind(item["apiVersion"], item["kind"])
        assert resource is not None
        metadata = item["metadata"]
        namespace = metadata.get("namespace", "default")
        found = self.client.get(resource.qualified, metadata["name"], namespace)
        version = found["metadata"]["resourceVersion"]
        return self.client.replace({**item, "metadata": {**metadata, "resourceVersion": version}})

    def token(self, user: User = ADMIN) -> str:
        """Return a bearer token of a user."""
        return self.api.authorizer.issue(user)

    def kubeconfig(self, user: User = ADMIN, namespace: str = "default") -> Path:
        """Write a kubeconfig for a user, and return its path."""
        path = self.folder / f"kubeconfig-{user.name.replace(':', '-')}"
        config = {
            "apiVersion": "v1",
            "kind": "Config",
            "current-context": "fake",
            "clusters": [{"name": "fake", "cluster": {"server": self.server.url}}],
            "users": [{"name": user.name, "user": {"token": self.token(user)}}],
            "contexts": [
                {
                    "name": "fake",
                    "context": {"cluster": "fake", "user": user.name, "namespace": namespace},
                }
            ],
        }
        path.write_text(json.dumps(config))  # Which is YAML, too.
        return path

    def calls(self, user: User) -> list[Call]:
        """Return the calls that a user made."""
        with self.api.store.lock:
            return [call for call in self.api.calls if call.user == user.name]

    def log(self, name: str, namespace: str = "default") -> str:
        """Return what a pod's first container has printed; "" if it has not started."""
        pod = self.client.get("pods", name, namespace)
        try:
            file = self._log(pod["metadata"]["uid"], pod["spec"]["containers"][0]["name"], False)
        except KeyError:
            return ""
        return file.read_text()

    def pids(self, pod: Object) -> list[int]:
        """Return the first processes of a pod's containers that run."""
        kubelet = self._kubelets.get(pod["spec"].get("nodeName", ""))
        return kubelet.pids(pod["metadata"]["uid"]) if kubelet else []

    def _silence(self, name: str) -> float:
        kubelet = self._kubelets.get(name)
        if kubelet is None or kubelet.died is None:
            return 0.0
        return time.monotonic() - kubelet.died

    def _address(self) -> str:
        number = next(self._next) % (64 << 16)
        return f"127.{16 + (number >> 16)}.{number >> 8 & 255}.{number & 255 or 1}"

    def _log(self, uid: str, container: str, previous: Any) -> Path:
        for kubelet in self._kubelets.values():
            try:
                return kubelet.output(uid, container, bool(previous))
            except KeyError:
                continue
        raise KeyError(uid)
