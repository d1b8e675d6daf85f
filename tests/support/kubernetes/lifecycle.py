# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""What becomes of nodes that are silent or cordoned and of the pods on them; status of budgets."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from tests.support.kubernetes import conditions, kinds, pods, quotas, subresources
from tests.support.kubernetes.api import Api
from tests.support.kubernetes.client import Client
from tests.support.kubernetes.refusals import RefusedError
from tests.support.kubernetes.scheduler import tolerates

Object = dict[str, Any]
_UNREACHABLE = "node.kubernetes.io/unreachable"
_UNSCHEDULABLE = "node.kubernetes.io/unschedulable"


@dataclass
class Timings:
    """How long things take that take minutes in a real cluster, in seconds.

    Attributes:
        silence: A node that is silent for so long is unreachable (a real one: 50).
        toleration: How long each of a toleration's seconds is.
        backoff: Before the first restart of a container, and of pulling an image; doubled each
            time (a real one: 10).
        longest_backoff: No longer than this (a real one: 300).
        teardown: From the end of a pod's last container until the pod's phase says so, or a deleted
            pod is gone. Until then, the pod keeps what it requests (Kubernetes 1.36.2 with
            containerd: 1.1 on average).
        requeue: For how long a pod that finds no node is not tried again, whatever becomes free (a
            real scheduler: 1, doubled each time up to 10; seen on Kubernetes 1.36.2, where workers
            grew back into CPUs that a pod had been given, which once ended OutOfcpu).
    """

    silence: float = 0.3
    toleration: float = 0.002
    backoff: float = 0.1
    longest_backoff: float = 2.0
    teardown: float = 0.3
    requeue: float = 0.2


class Lifecycle:
    """Looks after nodes, and evicts from those that do not want their pods any more."""

    def __init__(
        self, api: Api, client: Client, timings: Timings, silence: Callable[[str], float]
    ) -> None:
        """Take how long a node has been silent, in seconds, as a function of its name."""
        self._api, self._client, self._timings, self._silence = api, client, timings, silence
        # Since when a pod is on a node with a taint.
        self._tainted: dict[tuple[str, str], float] = {}

    def step(self) -> float:
        """Look at all nodes once; return in how many seconds to look again."""
        for node in self._client.list("nodes"):
            with suppress(RefusedError):  # It changed meanwhile.
                self._look_at(node)
        before, self._tainted = self._tainted, {}
        for node in self._client.list("nodes"):
            name = node["metadata"]["name"]
            taints = [t for t in node["spec"].get("taints", ()) if t["effect"] == "NoExecute"]
            on_it = self._client.list("pods", fieldSelector=f"spec.nodeName={name}")
            for pod in filter(pods.is_live, on_it):
                for taint in taints:
                    key = pod["metadata"]["uid"], taint["key"]
                    since = self._tainted[key] = before.get(key, time.monotonic())
                    self._expel(pod, taint, since)
        return self._timings.silence / 4

    def _look_at(self, node: Object) -> None:
        name = node["metadata"]["name"]
        silent = self._silence(name) > self._timings.silence
        if silent and not _is_unknown(node):
            for kind in ("Ready", "MemoryPressure", "DiskPressure", "PIDPressure"):
                why = "Kubelet stopped posting node status."
                new = conditions.condition(kind, "Unknown", "NodeStatusUnknown", why)
                node["status"] = conditions.with_condition(node["status"], new)
            node = self._client.set_status("nodes", node, node["status"])
            for pod in self._client.list("pods", fieldSelector=f"spec.nodeName={name}"):
                if conditions.is_true(pod["status"], "Ready"):
                    new = conditions.condition("Ready", "False", "NodeNotReady")
                    status = conditions.with_condition(pod["status"], new)
                    self._client.set_status("pods", pod, status)
        wanted = [
            taint
            for taint in node["spec"].get("taints", ())
            if taint["key"] not in (_UNREACHABLE, _UNSCHEDULABLE)
        ]
        if _is_unknown(node):
            wanted += [{"key": _UNREACHABLE, "effect": e} for e in ("NoSchedule", "NoExecute")]
        if node["spec"].get("unschedulable"):
            wanted.append({"key": _UNSCHEDULABLE, "effect": "NoSchedule"})
        if wanted != node["spec"].get("taints", []):
            version = node["metadata"]["resourceVersion"]
            patch = {"metadata": {"resourceVersion": version}, "spec": {"taints": wanted or None}}
            self._client.patch("nodes", name, patch)

    def _expel(self, pod: Object, taint: Object, since: float) -> None:
        metadata = pod["metadata"]
        toleration = tolerates(pod, taint)
        if "deletionTimestamp" in metadata:
            return
        if toleration is not None:
            seconds = toleration.get("tolerationSeconds")
            if seconds is None or time.monotonic() < since + seconds * self._timings.toleration:
                return
        why = f"Taint manager: deleting due to NoExecute taint {taint['key']}"
        new = conditions.condition("DisruptionTarget", "True", "DeletionByTaintManager", why)
        with suppress(RefusedError):
            status = conditions.with_condition(pod["status"], new)
            self._client.set_status("pods", pod, status)
            self._client.delete("pods", metadata["name"], metadata["namespace"])

    def write_statuses(self) -> None:
        """Write the statuses of budgets and quotas."""
        for budget in self._client.list("poddisruptionbudgets"):
            with self._api.store.lock:
                status = subresources.budget_status(self._api, budget)
            self._write("poddisruptionbudgets", budget, status)
        for quota in self._client.list("resourcequotas"):
            inside = self._client.list("pods", quota["metadata"]["namespace"])
            self._write("resourcequotas", quota, quotas.status(quota, quotas.total(inside)))

    def _write(self, plural: str, item: Object, status: Object) -> None:
        if item.get("status") != status:
            resource = self._api.catalogue.named(plural)
            whole = {"apiVersion": resource.api_version, "kind": resource.kind, **item}
            with suppress(RefusedError):
                self._client.replace({**whole, "status": status}, "status")


def _is_unknown(node: Object) -> bool:
    ready = conditions.find(node.get("status", {}), "Ready")
    return ready is not None and ready["status"] == "Unknown"


def of_pods_and(*others: tuple[str, str]) -> Callable[[Any], bool]:
    """Return what says whether a change is one of pods or of these."""
    return lambda change: change.key[0] in (kinds.PODS, *others)
