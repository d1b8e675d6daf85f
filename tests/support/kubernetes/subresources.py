# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""What is created below a pod: its binding to a node, and its eviction."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tests.support.kubernetes import conditions, custom, deletion, disruptions, kinds, pods
from tests.support.kubernetes.refusals import RefusedError, bad_request, conflict
from tests.support.kubernetes.requests import Answer, Request

if TYPE_CHECKING:
    from tests.support.kubernetes.api import Api

Object = dict[str, Any]
_SUCCESS = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": 201}


def create(api: Api, request: Request) -> Answer:
    """Bind or evict a pod.

    Raises:
        RefusedError: It cannot be.
    """
    wanted = "Binding" if request.subresource == "binding" else "Eviction"
    if not isinstance(request.body, dict) or request.body.get("kind", wanted) != wanted:
        raise bad_request(f"an object of kind {wanted} is expected")
    return bind(api, request) if wanted == "Binding" else evict(api, request)


def bind(api: Api, request: Request) -> Answer:
    """Bind a pod to a node."""
    pod = api.found(request)
    if pod["spec"].get("nodeName"):
        why = f'pod {request.name} is already assigned to node "{pod["spec"]["nodeName"]}"'
        raise conflict(request.resource, request.name, why)
    if "deletionTimestamp" in pod["metadata"]:
        raise conflict(request.resource, request.name, f"pod {request.name} is being deleted")
    bound = {**pod, "spec": {**pod["spec"], "nodeName": request.body["target"]["name"]}}
    scheduled = conditions.condition("PodScheduled", "True")
    bound["status"] = conditions.with_condition(pod["status"], scheduled)
    api.store.put(request.key, bound)
    return Answer(201, _SUCCESS)


def evict(api: Api, request: Request) -> Answer:
    """Evict a pod if its disruption budget lets it go."""
    pod = api.found(request)
    if pods.is_live(pod) and pod["status"]["phase"] != "Pending" and "deletionTimestamp" not in (
        pod["metadata"]
    ):  # fmt: skip
        _check_budgets(api, pod)
    options = request.body.get("deleteOptions") or {}
    why = "Eviction API: evicting"
    target = conditions.condition("DisruptionTarget", "True", "EvictionByEvictionAPI", why)
    if options.get("dryRun") != ["All"] and pods.is_live(pod):
        status = conditions.with_condition(pod["status"], target)
        api.store.put(request.key, {**pod, "status": status})
    plain = {**vars(request), "verb": "delete", "subresource": "", "body": options}
    deletion.delete(api, Request(**plain))
    return Answer(201, _SUCCESS)


def _check_budgets(api: Api, pod: Object) -> None:
    namespace = pod["metadata"]["namespace"]
    budgets = [
        budget
        for budget in api.store.list(kinds.BUDGETS, namespace)
        if disruptions.covers(budget, pod)
    ]
    if len(budgets) > 1:
        why = "This pod has more than one PodDisruptionBudget, which the eviction "
        why += "subresource does not support."
        raise RefusedError(500, "InternalError", why)
    for budget in budgets:
        status = budget_status(api, budget)
        if status["disruptionsAllowed"] == 0 and disruptions.is_healthy(pod):
            name = budget["metadata"]["name"]
            needs, has = status["desiredHealthy"], status["currentHealthy"]
            said = (
                f"The disruption budget {name} needs {needs} healthy pods and has {has} currently"
            )
            cause = {"reason": "DisruptionBudget", "message": said}
            why = "Cannot evict pod as it would violate the pod's disruption budget."
            raise RefusedError(429, "TooManyRequests", why, {"causes": [cause]})


def budget_status(api: Api, budget: Object) -> Object:
    """Return a disruption budget's status, as of now."""
    found = api.store.list(kinds.PODS, budget["metadata"]["namespace"])

    def scale(pod: Object) -> int | None:
        for owner in pod["metadata"].get("ownerReferences", ()):
            resource = api.catalogue.of_kind(owner["apiVersion"], owner["kind"])
            if owner.get("controller") and resource and "scale" in resource.subresources:
                key = resource.id, pod["metadata"]["namespace"], owner["name"]
                item = api.store.get(key)
                if item is not None:
                    replicas: int = custom.scale_of(resource, item)["spec"]["replicas"]
                    return replicas
        return None

    return disruptions.status(budget, found, scale)
