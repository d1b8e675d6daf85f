# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Action executor: carries out the decision about a job, call by call."""

from __future__ import annotations

import logging
import secrets
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Final

from tf_malleable.cluster import resource_names
from tf_malleable.cluster.job_spec import JobSpec, time_of
from tf_malleable.cluster.kube import objects
from tf_malleable.cluster.kube.client import STRATEGIC, ApiClient, CallError, Object
from tf_malleable.cluster.kube.informer import Informer
from tf_malleable.cluster.observe.job_cache import ApiRefusal, JobCache
from tf_malleable.cluster.outage_log import OutageLog
from tf_malleable.cluster.quantities import cores
from tf_malleable.cluster.reconcile.actions import (
    Action,
    CreatePod,
    DeletePod,
    EmitEvent,
    EnsureDependents,
    MarkPod,
    ResizePod,
    SetFinalizers,
    TryPod,
    WriteStatus,
)
from tf_malleable.cluster.reconcile.reconciler import JobDecision
from tf_malleable.cluster.resource_names import ResourceKind
from tf_malleable.cluster.settings import Timings

_COMPONENT: Final = "tf-malleable-operator"
# Reason of a CallError that is the operator's own: an object belongs to somebody else.
_NOT_OURS: Final = "NotOurs"
_log = logging.getLogger(__name__)


class ActionExecutor:
    """Carries out decisions with calls of the API server."""

    def __init__(
        self,
        client: ApiClient,
        jobs: Informer,
        pods: Informer,
        key: bytes,
        timings: Timings,
        count: Callable[[str, str], None],
    ) -> None:
        """Create an executor.

        Args:
            client: Client of the API server.
            jobs: Informer to update with changed jobs.
            pods: Informer to update with changed pods.
            key: Key from which tokens are derived.
            timings: Timeouts and intervals.
            count: Called with the kind of each action and its result.
        """
        self._client, self._jobs, self._pods, self._key = client, jobs, pods, key
        self._timings, self._count = timings, count
        self._outage = OutageLog(_log)

    async def carry_out(
        self, decision: JobDecision, memory: JobCache, may_act: Callable[[], bool]
    ) -> bool:
        """Carry out the decision about a job; return whether all actions succeeded.

        Args:
            decision: Decision about the job.
            memory: Remembered state of the job; updated.
            may_act: Returns whether this operator is still the leader.
        """
        is_good, is_worker_made, refusal = True, False, memory.refused
        for action in decision.actions:
            if not may_act():
                return False
            kind = type(action).__name__
            _log.debug("%s/%s: %s", *decision.job.key, kind)
            try:
                await self._do(decision.job, action, memory)
            except CallError as error:
                if error.is_gone and isinstance(action, (DeletePod, ResizePod, MarkPod)):
                    self._pods.forget((decision.job.namespace, action.pod.name), action.pod.uid)
                    continue
                is_good = False
                self._count(kind, error.reason or str(error.code))
                if error.is_outage:
                    self._outage.begin(error)
                else:
                    _log.warning("%s/%s: %s: %s", *decision.job.key, kind, error)
                if isinstance(action, CreatePod | EnsureDependents | TryPod):
                    self._note_refusal(decision.job, action, error, memory)
            else:
                self._outage.end()
                self._count(kind, "done")
                is_worker_made = is_worker_made or _is_worker(action)
        if is_worker_made and memory.refused is refusal:
            memory.refused = None
        return is_good

    def _note_refusal(
        self,
        job: JobSpec,
        action: CreatePod | EnsureDependents | TryPod,
        error: CallError,
        memory: JobCache,
    ) -> None:
        """Remember that something was refused: it is tried again ever less often."""
        if error.code not in (400, 403, 404, 422) and error.reason != _NOT_OURS:
            return
        now, timings, before = time.time(), self._timings, memory.refused
        count = 1 if before is None else before.count + 1
        delay = min(timings.longest_refused, timings.refused * 2.0 ** min(count - 1, 30))
        memory.refused = ApiRefusal(
            _why(error, action),
            _said(error, action),
            job.generation,
            now if before is None else before.since,
            count,
            now + delay,
            None if isinstance(action, EnsureDependents) else action.pod,
        )

    async def _do(self, job: JobSpec, action: Action, memory: JobCache) -> None:
        if isinstance(action, EnsureDependents):
            memory.address = await self._prepare(job, memory.address)
            if memory.refused is not None and memory.refused.pod is None:
                memory.refused = replace(memory.refused, is_allowed=True)
        elif isinstance(action, CreatePod):
            await self._create(job, action)
        elif isinstance(action, TryPod):
            await self._try(job, action)
            if memory.refused is not None:
                memory.refused = replace(memory.refused, is_allowed=True)
        elif isinstance(action, DeletePod):
            await self._delete(job, action)
        elif isinstance(action, ResizePod):
            await self._resize(job, action)
        elif isinstance(action, MarkPod):
            change: Object = {"metadata": {**action.metadata, "uid": action.pod.uid}}
            self._pods.learn(
                await self._client.patch(
                    resource_names.PODS, job.namespace, action.pod.name, change
                )
            )
        elif isinstance(action, SetFinalizers):
            change = {"metadata": {"uid": job.uid, "finalizers": list(action.finalizers) or None}}
            self._jobs.learn(
                await self._client.patch(resource_names.JOBS, job.namespace, job.name, change)
            )
        elif isinstance(action, WriteStatus):
            change = {"metadata": {"uid": job.uid}, "status": action.change}
            self._jobs.learn(
                await self._client.patch(
                    resource_names.JOBS, job.namespace, job.name, change, part="status"
                )
            )
        else:
            await self._tell(job, action)

    async def _prepare(self, job: JobSpec, before: str) -> str:
        """Create what a job needs before its pods; return the address of the Service.

        A deleted Service gets its previous address again, if possible: workers know it by that.
        """
        wanted = objects.coordinator_service(job, before)
        try:
            service = await self._have(resource_names.SERVICES, job, wanted)
        except CallError as error:
            if not before or error.code != 422:
                raise
            service = await self._have(
                resource_names.SERVICES, job, objects.coordinator_service(job)
            )
        await self._have(resource_names.BUDGETS, job, objects.disruption_budget(job))
        secret = objects.token_secret(job, objects.token(self._key, job))
        try:
            await self._client.create(resource_names.SECRETS, job.namespace, secret)
        except CallError as error:
            if error.reason != "AlreadyExists":
                raise
        return str(service["spec"]["clusterIP"])

    async def _have(self, kind: ResourceKind, job: JobSpec, wanted: Object) -> Object:
        """Return an object of a job, which is created unless it exists.

        A try to create a Service that exists would take an address, and have an event tell of it.

        Raises:
            CallError: The API server refuses it, or an object of this name has another owner, such
                as an earlier job.
        """
        name = wanted["metadata"]["name"]
        try:
            found = await self._client.get(kind, job.namespace, name)
        except CallError as error:
            if not error.is_gone:
                raise
            return await self._client.create(kind, job.namespace, wanted)
        owners = found["metadata"].get("ownerReferences") or ()
        if all(one["uid"] != job.uid for one in owners):
            raise CallError(409, _NOT_OURS, f"{kind.kind} {name} belongs to somebody else")
        return found

    async def _create(self, job: JobSpec, action: CreatePod) -> None:
        try:
            made = await self._client.create(resource_names.PODS, job.namespace, action.pod)
        except CallError as error:
            # The answer to an earlier try was lost, or the informer has not seen the pod yet.
            if error.reason == "AlreadyExists":
                return
            raise
        self._pods.learn(made)
        await self._tell(job, EmitEvent(action.why, action.message))

    async def _try(self, job: JobSpec, action: TryPod) -> None:
        try:
            await self._client.create(resource_names.PODS, job.namespace, action.pod, dry_run=True)
        except CallError as error:
            if error.reason != "AlreadyExists":
                raise

    async def _delete(self, job: JobSpec, action: DeletePod) -> None:
        pod = action.pod
        gone = await self._client.delete(resource_names.PODS, job.namespace, pod.name, pod.uid)
        metadata = gone.get("metadata") or {}
        is_pod = gone.get("kind") == "Pod" and metadata.get("uid") == pod.uid
        if is_pod and metadata.get("deletionTimestamp"):
            self._pods.learn(gone)
        else:
            self._pods.forget((job.namespace, pod.name), pod.uid)
        if action.message:
            await self._tell(job, EmitEvent(action.why, action.message))

    async def _resize(self, job: JobSpec, action: ResizePod) -> None:
        amount = {"cpu": cores(action.cpus)}
        container = {"name": action.container, "resources": {"requests": amount, "limits": amount}}
        change = {"metadata": {"uid": action.pod.uid}, "spec": {"containers": [container]}}
        changed = await self._client.patch(
            resource_names.PODS,
            job.namespace,
            action.pod.name,
            change,
            part="resize",
            how=STRATEGIC,
        )
        self._pods.learn(changed)

    async def _tell(self, job: JobSpec, said: EmitEvent) -> None:
        """Log an event and create it; a failure to do so is only logged."""
        level = logging.WARNING if said.is_warning else logging.INFO
        _log.log(level, "%s/%s: %s: %s", *job.key, said.reason, said.message)
        about = {
            "apiVersion": resource_names.API_VERSION,
            "kind": resource_names.JOB_KIND,
            "name": job.name,
            "namespace": job.namespace,
            "uid": job.uid,
        }
        now = time_of(time.time())
        event = {
            "apiVersion": "v1",
            "kind": "Event",
            "metadata": {
                "name": f"{job.name}.{secrets.token_hex(8)}",
                "namespace": job.namespace,
            },
            "involvedObject": about,
            "reason": said.reason,
            "message": said.message[:1000],
            "type": "Warning" if said.is_warning else "Normal",
            "firstTimestamp": now,
            "lastTimestamp": now,
            "count": 1,
            "source": {"component": _COMPONENT},
            "reportingComponent": _COMPONENT,
            "reportingInstance": "",
        }
        try:
            await self._client.create(resource_names.EVENTS, job.namespace, event)
        except CallError as error:
            _log.debug("an event is lost: %s", error)


def _is_worker(action: Action) -> bool:
    """Return whether an action creates a worker."""
    if not isinstance(action, CreatePod):
        return False
    labels = action.pod["metadata"]["labels"]
    return bool(labels[resource_names.ROLE] == resource_names.WORKER)


def _why(error: CallError, action: Action) -> str:
    text = str(error)
    if "exceeded quota" in text or "failed quota" in text:
        return "QuotaExceeded"
    if "because it is being terminated" in text:
        return "NamespaceTerminating"
    return "DependentsRefused" if isinstance(action, EnsureDependents) else "PodRefused"


def _said(error: CallError, action: CreatePod | EnsureDependents | TryPod) -> str:
    """Return the server's message, and what can be done about it in the job's spec."""
    text = str(error)
    if isinstance(action, EnsureDependents):
        return text
    is_coordinator = action.pod["metadata"]["labels"][resource_names.ROLE] == (
        resource_names.COORDINATOR
    )
    # As a LimitRange refuses.
    if is_coordinator and " usage per " in text:
        return f"{text}; set spec.coordinator.resources"
    return text
