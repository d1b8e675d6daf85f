# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Which node a pod goes to: by required affinity, taints, and what is not requested yet."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterable
from contextlib import suppress
from fractions import Fraction
from typing import Any

from tests.support.kubernetes import conditions, pods, quantities
from tests.support.kubernetes.client import Client
from tests.support.kubernetes.refusals import RefusedError
from tests.support.kubernetes.selectors import expression

Object = dict[str, Any]


def tolerates(pod: Object, taint: Object) -> Object | None:
    """Return the toleration of a pod for a taint; None if it has none."""
    for one in pod["spec"].get("tolerations", ()):
        if one.get("effect") not in (None, "", taint["effect"]):
            continue
        if one.get("operator", "Equal") == "Exists" and one.get("key") in (None, "", taint["key"]):
            return dict(one)
        same = one.get("key") == taint["key"]
        if same and one.get("value", "") == taint.get("value", ""):
            return dict(one)
    return None


def accepts(node: Object, pod: Object) -> bool:
    """Say whether a pod's selector and required affinity allow a node."""
    labels, name = node["metadata"].get("labels", {}), node["metadata"]["name"]
    if any(labels.get(k) != v for k, v in pod["spec"].get("nodeSelector", {}).items()):
        return False
    affinity = pod["spec"].get("affinity", {}).get("nodeAffinity", {})
    required = affinity.get("requiredDuringSchedulingIgnoredDuringExecution")
    if required is None:
        return True
    return any(_meets(term, labels, name) for term in required["nodeSelectorTerms"])


def _meets(term: Object, labels: dict[str, str], name: str) -> bool:
    asked = [*term.get("matchExpressions", ()), *term.get("matchFields", ())]
    return bool(asked) and all(
        expression(one, {**labels, "metadata.name": name}) for one in asked
    )  # fmt: skip


def lacking(node: Object, pod: Object, on_it: Iterable[Object]) -> list[str]:
    """Return the resources that a node has too little of for one more pod."""
    used: dict[str, Fraction] = {}
    for other in on_it:
        for name, value in pods.requests(other, cautious=True).items():
            used[name] = used.get(name, Fraction(0)) + value
    allocatable = node["status"]["allocatable"]
    return [
        name
        for name, value in pods.requests(pod).items()
        if used.get(name, 0) + value > quantities.parse(allocatable.get(name, 0))
    ]


def obstacle(node: Object, pod: Object, on_it: Iterable[Object]) -> str:
    """Return why a pod cannot go to a node; "" if it can."""
    for taint in node["spec"].get("taints", ()):
        if taint["effect"] != "PreferNoSchedule" and tolerates(pod, taint) is None:
            if taint["key"] == "node.kubernetes.io/unschedulable":
                return "node(s) were unschedulable"
            return f"node(s) had untolerated taint {{{taint['key']}: {taint.get('value', '')}}}"
    if node["spec"].get("unschedulable"):
        return "node(s) were unschedulable"
    if not conditions.is_true(node["status"], "Ready"):
        return "node(s) were not ready"
    if not accepts(node, pod):
        return "node(s) didn't match Pod's node affinity/selector"
    missing = lacking(node, pod, on_it)
    if "pods" in missing:
        return "Too many pods"
    return f"Insufficient {missing[0]}" if missing else ""


class Scheduler:
    """Binds pods that wait to nodes, those of the highest priority first.

    A pod that finds no node has pods of lower priority deleted where that helps, at once: seen on
    Kubernetes 1.36.2, where nobody else has time to make way before.
    """

    def __init__(self, client: Client, requeue: Callable[[], float]) -> None:
        """Take how long a pod that finds no node is not tried again, in seconds."""
        self._client, self._requeue = client, requeue
        # When pods that found no node are tried again, by the monotonic clock.
        self._again: dict[str, float] = {}

    def step(self) -> float | None:
        """Bind what can be bound now; return in how many seconds to try again."""
        everything = self._client.list("pods")
        nodes = self._client.list("nodes")
        placed: dict[str, list[Object]] = {node["metadata"]["name"]: [] for node in nodes}
        for pod in everything:
            if pods.is_live(pod) and pod["spec"].get("nodeName") in placed:
                placed[pod["spec"]["nodeName"]].append(pod)
        for pod in filter(_waits, everything):
            # What is meant for it is for nobody of lower or equal priority.
            if (name := pod["status"].get("nominatedNodeName")) in placed:
                placed[name].append(pod)
        now = time.monotonic()
        waiting = {pod["metadata"]["uid"]: pod for pod in filter(_waits, everything)}
        self._again = {uid: at for uid, at in self._again.items() if uid in waiting}
        for pod in sorted(waiting.values(), key=_rank):
            if self._again.get(pod["metadata"]["uid"], 0.0) > now:
                continue
            with suppress(RefusedError):  # It changed meanwhile, for which this is called again.
                self._place(pod, nodes, placed)
        return min((max(0.001, at - now) for at in self._again.values()), default=None)

    def _place(self, pod: Object, nodes: list[Object], placed: dict[str, list[Object]]) -> None:
        if pod["spec"].get("schedulingGates"):
            self._say(pod, "SchedulingGated", "Scheduling is blocked due to non-empty gates")
            return
        found = {
            name: obstacle(node, pod, _rivals(pod, placed[name]))
            for node in nodes
            for name in (node["metadata"]["name"],)
        }
        free = [name for name, why in found.items() if not why]
        uid = pod["metadata"]["uid"]
        self._again.pop(uid, None)
        if not free:
            self._again[uid] = time.monotonic() + self._requeue()
            reasons = sorted(f"{n} {why}" for why, n in Counter(found.values()).items())
            said = f"0/{len(nodes)} nodes are available: {', '.join(reasons)}."
            self._say(pod, "Unschedulable", said)
            self._preempt(pod, nodes, placed)
            return
        name = min(free, key=lambda name: (_load(placed[name]), name))
        metadata = pod["metadata"]
        body = {"kind": "Binding", "target": {"kind": "Node", "name": name}}
        self._client.post("pods", metadata["name"], "binding", body, metadata["namespace"])
        placed[name].append(pod)

    def _preempt(self, pod: Object, nodes: list[Object], placed: dict[str, list[Object]]) -> None:
        """Delete the fewest pods of lower priority, on one node, that make room for a pod."""
        if pod["spec"].get("preemptionPolicy") == "Never":
            return
        choices = []
        for node in nodes:
            name = node["metadata"]["name"]
            rivals = _rivals(pod, placed[name])
            lower = [one for one in rivals if _priority(one) < _priority(pod)]
            if any("deletionTimestamp" in one["metadata"] for one in lower):
                return  # Some go already.
            kept = [one for one in rivals if one not in lower]
            if obstacle(node, pod, kept):
                continue
            victims = []
            for one in sorted(lower, key=_priority, reverse=True):
                if obstacle(node, pod, [*kept, one]):
                    victims.append(one)
                else:
                    kept.append(one)
            choices.append((len(victims), name, victims))
        if not choices:
            return
        _, name, victims = min(choices, key=lambda choice: choice[:2])
        fresh = self._client.get("pods", pod["metadata"]["name"], pod["metadata"]["namespace"])
        self._client.set_status("pods", fresh, {**fresh["status"], "nominatedNodeName": name})
        for victim in victims:
            why = "default-scheduler: preempting to accommodate a higher priority pod"
            new = conditions.condition("DisruptionTarget", "True", "PreemptionByScheduler", why)
            status = conditions.with_condition(victim["status"], new)
            with suppress(RefusedError):
                self._client.set_status("pods", victim, status)
            with suppress(RefusedError):
                metadata = victim["metadata"]
                self._client.delete("pods", metadata["name"], metadata["namespace"])

    def _say(self, pod: Object, reason: str, message: str) -> None:
        new = conditions.condition("PodScheduled", "False", reason, message)
        status = conditions.with_condition(pod["status"], new)
        if status != pod["status"]:
            self._client.set_status("pods", pod, status)


def _waits(pod: Object) -> bool:
    unbound = not pod["spec"].get("nodeName") and "deletionTimestamp" not in pod["metadata"]
    return unbound and pod["spec"]["schedulerName"] == "default-scheduler" and pods.is_live(pod)


def _priority(pod: Object) -> int:
    return int(pod["spec"].get("priority", 0))


def _rivals(pod: Object, found: Iterable[Object]) -> list[Object]:
    """Return the pods on a node beside which a pod must fit, of those that are meant for it."""
    return [
        one
        for one in found
        if one["metadata"]["uid"] != pod["metadata"]["uid"]
        and (one["spec"].get("nodeName") or _priority(one) >= _priority(pod))
    ]


def _rank(pod: Object) -> tuple[int, str, int]:
    metadata = pod["metadata"]
    version = int(metadata["resourceVersion"])
    return -pod["spec"].get("priority", 0), metadata["creationTimestamp"], version


def _load(found: list[Object]) -> Fraction:
    return sum((pods.requests(pod).get("cpu", Fraction(0)) for pod in found), Fraction(0))
