# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Job status: the status of a MalleableJob's object, computed anew. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import ceil
from typing import Any, Final

from tf_malleable.cluster import resource_names
from tf_malleable.cluster.job_spec import JobSpec, Manifest, time_of
from tf_malleable.cluster.observe.job_cache import JobCache
from tf_malleable.cluster.observe.job_state import ENDED, TRAINED, ObservedState
from tf_malleable.cluster.observe.pod_status import UNSEEN, PodStatus
from tf_malleable.cluster.observe.rescale_history import recount
from tf_malleable.cluster.observe.training_progress import TrainingProgress
from tf_malleable.cluster.planning.cluster_job import JobPlan
from tf_malleable.cluster.settings import Timings

# Share of the time for which a pod may stay unscheduled that a scheduler has to look at it.
_SCHEDULER_SHARE: Final = 0.25

Status = dict[str, Any]


def change(before: Mapping[str, Any], after: Mapping[str, Any]) -> Status:
    """Return the merge patch from `before` to `after`; empty if they are equal."""
    made: Status = {name: None for name in before if name not in after}
    for name, value in after.items():
        known = before.get(name)
        if isinstance(known, Mapping) and isinstance(value, Mapping):
            if known != value:
                made[name] = change(known, value)
        elif name not in before or known != value:
            made[name] = value
    return made


def desired(job: JobSpec) -> Status:
    """Return the desired numbers of a job: the most workers and CPUs that it could use."""
    workers = job.workers.most
    each = min(job.workers.most_cpus, float(ceil(job.shards / workers)))
    return {"workers": workers, "cpus": workers * max(job.workers.least_cpus, each)}


def status(
    job: JobSpec,
    judgement: ObservedState,
    plan: JobPlan | None,
    progress: TrainingProgress | None,
    memory: JobCache,
    now: float,
    timings: Timings,
) -> Status:
    """Return the status of a job.

    Args:
        job: The job, with its previous status.
        judgement: Observed state of the job.
        plan: Plan for the job; None once it has ended.
        progress: Progress that the coordinator reports; None if there is no recent report.
        memory: Remembered state of the job.
        now: Current time, in seconds since the epoch.
        timings: Timeouts and intervals.
    """
    before = job.status
    kept = ("startedAt", "endedAt", "generation", "progress")
    made: Status = {name: before[name] for name in kept if name in before}
    made["phase"] = judgement.phase
    made["observedGeneration"] = job.generation
    made["selector"] = (
        f"{resource_names.JOB}={job.name},{resource_names.ROLE}={resource_names.WORKER}"
    )
    made["failures"] = judgement.crashes.count
    made["desired"] = desired(job)
    has_ended = judgement.phase in ENDED
    if plan is not None and plan.requested is not None:
        made["requested"] = {"cpus": plan.requested}
    made["granted"] = _granted(None if has_ended else plan)
    made["actual"] = _actual(judgement)
    by_pod = {} if plan is None else {each.pod: each.cpus for each in plan.workers}
    made["workers"] = [_worker(p, by_pod.get(p.name, 0), progress) for p in judgement.workers]
    made["parameterServers"] = [_server(pod) for pod in judgement.servers]
    if judgement.has_started and "startedAt" not in made:
        made["startedAt"] = time_of(now)
    if has_ended and "endedAt" not in made:
        made["endedAt"] = time_of(now)
    if progress is not None and progress.generation:
        made["generation"] = progress.generation
        # A coordinator without workers, which has not seen the end either, knows of no steps.
        if progress.workers or (progress.is_over and progress.steps_done):
            made["progress"] = _progress(progress)
    told = () if progress is None or not progress.generation else progress.rescales
    made["rescales"] = recount(told, before, made["actual"], now)
    if has_ended and "progress" in made:
        made["progress"] = {k: v for k, v in made["progress"].items() if k != "stepsPerSecond"}
    unseen_before = now - timings.unscheduled * _SCHEDULER_SHARE
    wanted = _conditions(judgement, plan, memory, unseen_before)
    made["conditions"] = _merged(before.get("conditions") or (), wanted, job.generation, now)
    return made


def broken(before: Manifest, generation: int, problem: str, now: float) -> Status:
    """Return the status of a job whose spec is invalid."""
    wanted = {"Valid": (False, "InvalidSpec", problem)}
    found = _merged(before.get("conditions") or (), wanted, generation, now)
    return {"phase": "Pending", **before, "observedGeneration": generation, "conditions": found}


def _granted(plan: JobPlan | None) -> Status:
    if plan is None:
        return {"workers": 0, "cpus": 0}
    return {"workers": len(plan.workers), "cpus": plan.cpus}


def _actual(judgement: ObservedState) -> Status:
    found = judgement.workers
    running = [pod for pod in found if pod.is_running and pod.uid in judgement.holders]
    cpus = sum(pod.cpus if pod.actual is None else pod.actual for pod in running)
    return {"workers": len(running), "cpus": round(cpus, 3)}


def _worker(pod: PodStatus, granted: float, progress: TrainingProgress | None) -> Status:
    shards = 0 if progress is None else progress.shards_of(pod.uid)
    return {**_server(pod), "granted": granted, "shards": shards}


def _server(pod: PodStatus) -> Status:
    made: Status = {"pod": pod.name, "node": pod.node, "granted": pod.cpus}
    if pod.is_running and pod.actual is not None:
        made["actual"] = pod.actual
    return made


def _progress(progress: TrainingProgress) -> Status:
    made: Status = {"step": progress.steps_done}
    if progress.steps_total is not None:
        made["steps"] = progress.steps_total
    if progress.steps_per_second is not None:
        made["stepsPerSecond"] = round(progress.steps_per_second, 3)
    return made


def _conditions(
    judgement: ObservedState, plan: JobPlan | None, memory: JobCache, unseen_before: float
) -> dict[str, tuple[bool, str, str]]:
    phase, reason, message = judgement.phase, judgement.reason, judgement.message
    made = {"Valid": (True, "Valid", "")}
    if plan is not None and phase not in ENDED:
        made["Granted"] = (bool(plan.workers), plan.reason, plan.why)
    running = phase == "Running" and bool(judgement.holders)
    made["Running"] = (running, reason if running or phase != "Running" else "Starting", message)
    made["Healthy"] = _health(judgement, memory, unseen_before)
    late = [pod for pod in judgement.workers if pod.resize]
    said = f"{late[0].name} at {late[0].node} waits for its CPUs" if late else ""
    made["Resizing"] = (bool(late), late[0].resize if late else "Settled", said)
    if judgement.is_ending:
        made[TRAINED] = (True, "Trained", "the training has come to its end")
    if phase in ENDED:
        made["Complete"] = (phase == "Succeeded", reason, message)
        made["Failed"] = (phase == "Failed", reason, message)
    return made


def _health(
    judgement: ObservedState, memory: JobCache, unseen_before: float
) -> tuple[bool, str, str]:
    """Return whether a job is healthy, and why.

    Args:
        judgement: Observed state of the job.
        memory: Remembered state of the job.
        unseen_before: Time before which pods must have been created that no scheduler has looked
            at, in seconds since the epoch. Newer ones are nothing unusual.
    """
    if memory.refused is not None and not memory.refused.is_allowed:
        return False, memory.refused.reason, memory.refused.message
    pods = (*judgement.coordinators, *judgement.workers, *judgement.servers)
    for pod in pods:
        if pod.waiting:
            return False, pod.waiting[0], f"{pod.name} does not start: {pod.waiting[1]}"
    if judgement.crashes.count:
        return False, "WorkersCrash", judgement.crashes.why
    for pod in pods:
        if pod.unscheduled and pod.end is None:
            message, since = pod.unscheduled
            if message != UNSEEN or since < unseen_before:
                return False, "Unschedulable", f"{pod.name}: {message}"
    return True, "Healthy", ""


def _merged(
    before: Sequence[Manifest],
    wanted: Mapping[str, tuple[bool, str, str]],
    generation: int,
    now: float,
) -> list[Status]:
    """Return the conditions, each with the time of the last change of its status."""
    known = {one["type"]: one for one in before}
    made = [dict(one) for one in before if one["type"] not in wanted and wanted.keys() == {"Valid"}]
    for kind, (holds, reason, message) in wanted.items():
        value = "True" if holds else "False"
        was = known.get(kind, {})
        is_same = was.get("status") == value
        since = was["lastTransitionTime"] if is_same else time_of(now)
        made.append(
            {
                "type": kind,
                "status": value,
                "observedGeneration": generation,
                "lastTransitionTime": since,
                "reason": reason or "Unknown",
                "message": message,
            }
        )
    return made
