# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Reconciler: one decision about all jobs from a snapshot: each job's members, and the actions."""

from __future__ import annotations

import gc
import logging
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

from tf_malleable.cluster import resource_names
from tf_malleable.cluster.job_spec import JobSpec, Manifest, parse_all
from tf_malleable.cluster.observe.job_cache import ApiRefusal, JobCache
from tf_malleable.cluster.observe.job_state import ENDED, ObservedState, has_trained, judge
from tf_malleable.cluster.observe.node_affinity import is_ready
from tf_malleable.cluster.observe.node_capacity import (
    OwnPods,
    held_until,
    namespace_quotas,
    rooms,
    seated,
)
from tf_malleable.cluster.observe.pod_status import PodStatus, owner_uid, see
from tf_malleable.cluster.observe.training_progress import TrainingProgress
from tf_malleable.cluster.planning.capacity import NodeCapacity
from tf_malleable.cluster.planning.cluster_job import ClusterJob, ClusterPlan, JobPlan
from tf_malleable.cluster.planning.planner import plan as make_plan
from tf_malleable.cluster.planning.speed_hysteresis import (
    Speeds,
    held_speeds,
    steady_plan,
    with_speeds,
)
from tf_malleable.cluster.reconcile import job_status
from tf_malleable.cluster.reconcile.actions import (
    Action,
    CreatePod,
    DeletePod,
    EmitEvent,
    EnsureDependents,
    SetFinalizers,
    TryPod,
    WriteStatus,
)
from tf_malleable.cluster.reconcile.planner_input import UsableNodes, cluster_job, size
from tf_malleable.cluster.reconcile.required_actions import PodSites, closing, steps
from tf_malleable.cluster.reconcile.resize_gate import paced
from tf_malleable.cluster.settings import Timings
from tf_malleable.policies.policy import Policy

_SOON_SECONDS = 1.0
# Interval at which it is looked whether newer speeds are worth another plan, which takes as long as
# the plan itself.
_COMPARE_SECONDS = 5.0
_log = logging.getLogger(__name__)
_NOTHING = JobPlan()


@dataclass(frozen=True)
class ClusterSnapshot:
    """State of the cluster at one time.

    Attributes:
        jobs: All MalleableJobs.
        pods: All pods of the cluster.
        nodes: All nodes.
        quotas: All ResourceQuotas.
        progress: Progress that the coordinators report, by the jobs' uids.
        now: Time of the snapshot, in seconds since the epoch.
        services: Namespaces and names of the jobs' Services; None if unknown.
        only_in: Only namespace whose jobs are carried out; None for all. Pods of other jobs count
            as anybody else's.
    """

    jobs: tuple[Manifest, ...]
    pods: tuple[Manifest, ...]
    nodes: tuple[Manifest, ...]
    quotas: tuple[Manifest, ...]
    progress: Mapping[str, TrainingProgress]
    now: float
    services: frozenset[tuple[str, str]] | None = None
    only_in: str | None = None

    @property
    def own_jobs(self) -> list[Manifest]:
        """MalleableJobs that are carried out, unless they name another manager."""
        place = self.only_in
        return [job for job in self.jobs if place in (None, job["metadata"]["namespace"])]


@dataclass(frozen=True)
class JobDecision:
    """Decision about a job.

    Attributes:
        job: The job.
        actions: Actions, in the order to carry them out.
        coordinator: Address of the coordinator's pod; empty if none runs.
        workers: Number of granted workers.
        servers: Number of granted servers.
        judgement: Observed state of the job; None if its spec is invalid.
    """

    job: JobSpec
    actions: tuple[Action, ...]
    coordinator: str = ""
    workers: int = 0
    servers: int = 0
    judgement: ObservedState | None = None


@dataclass(frozen=True)
class ClusterDecision:
    """Decision about all jobs.

    Attributes:
        jobs: Decisions by the jobs' uids.
        review_at: Time to decide again if nothing happens, in seconds since the epoch.
    """

    jobs: Mapping[str, JobDecision]
    review_at: float


class Reconciler:
    """Decides about all jobs, and remembers what the next decision needs.

    Attributes:
        memories: Remembered state of the jobs, by uid.
    """

    def __init__(self, policy: Policy, timings: Timings) -> None:
        """Create a reconciler.

        Args:
            policy: Policy that shares out the CPUs.
            timings: Timeouts and intervals.
        """
        self.memories: dict[str, JobCache] = defaultdict(JobCache)
        self._policy, self._timings = policy, timings
        self._seen: dict[str, tuple[str, PodStatus]] = {}
        self._held: dict[str, float] = {}
        self._speeds: Speeds = {}
        self._compared_at = 0.0

    def decide(self, scene: ClusterSnapshot) -> ClusterDecision:
        """Return the decision about all jobs."""
        with _uncollected():
            return self._decide(scene)

    def _decide(self, scene: ClusterSnapshot) -> ClusterDecision:
        now = scene.now
        all_jobs, wrong = parse_all(scene.own_jobs)
        nodes = {node["metadata"]["name"]: node for node in scene.nodes}
        ready = {name for name, node in nodes.items() if is_ready(node)}
        found, unread = self._pods(scene.pods)
        judged: dict[str, ObservedState] = {}
        asked: list[ClusterJob] = []
        places = UsableNodes(nodes)
        held = self._held = held_until(scene.pods, self._held, now)
        for uid, job in all_jobs.items():
            with _alone(job, wrong):
                if uid in unread and job.deleted is None:
                    raise _UnreadPodError(unread[uid])
                pods, progress = found.get(uid, ()), scene.progress.get(uid)
                judgement = judge(job, pods, progress, ready, now, self._timings, held)
                self._remember(job, pods, judgement, progress, now)
                memory = self.memories[uid]
                judgement = _given_up(judgement, memory, now, self._timings)
                is_planned = job.deleted is None and not _is_over(judgement)
                if is_planned and _held_back(judgement, memory) is None:
                    asked.append(
                        cluster_job(job, judgement, progress, memory, places, now, self._timings)
                    )
                judged[uid] = judgement
        jobs = {uid: all_jobs[uid] for uid in judged}
        lacking = {uid for uid, each in judged.items() if not each.coordinators}
        planned, seats = self._plan(scene, jobs, asked, lacking)
        names_taken = _taken(scene.pods)
        hostnames = {
            name: (node["metadata"].get("labels") or {}).get("kubernetes.io/hostname", name)
            for name, node in nodes.items()
        }
        doing: dict[str, list[Action]] = {}
        for uid, job in jobs.items():
            pods, plan = found.get(uid, ()), planned.jobs.get(uid, _NOTHING)
            self.memories[uid].sizing = plan.sizing
            with _alone(job, wrong):
                if job.deleted is not None:
                    doing[uid] = closing(job, pods, ready, now, self._timings)
                    continue
                address, seat = self.memories[uid].address, seats.get(uid, "")
                sites = PodSites(names_taken[job.key], seat, address, hostnames)
                doing[uid] = self._actions(scene, job, pods, sites, judged[uid], plan)
        made = {}
        for uid, (job, problem) in wrong.items():
            if job.deleted is None:
                made[uid] = self._broken(job, problem, now)
            else:  # Whatever is wrong with it, it must be able to go.
                last = closing(job, found.get(uid, ()), ready, now, self._timings)
                made[uid] = JobDecision(job, tuple(last))
        for uid, actions in paced(doing, jobs, nodes, scene.pods).items():
            plan = planned.jobs.get(uid, _NOTHING)
            made[uid] = _decision(jobs[uid], judged[uid], plan, actions)
        for uid in self.memories.keys() - all_jobs.keys() - wrong.keys():
            del self.memories[uid]
        return ClusterDecision(made, self._review_at(planned, made, now))

    def _actions(
        self,
        scene: ClusterSnapshot,
        job: JobSpec,
        pods: Sequence[PodStatus],
        sites: PodSites,
        judgement: ObservedState,
        plan: JobPlan,
    ) -> list[Action]:
        """Return the actions for a job that is not deleted."""
        memory, now = self.memories[job.uid], scene.now
        refusal = _held_back(judgement, memory)
        if refusal is not None:
            what = "what its pods need is" if refusal.pod is None else "its pods are"
            plan = JobPlan((), (), "PodsRefused", f"{what} refused: {refusal.message}")
        actions = steps(job, pods, sites, judgement, plan, now, self._timings)
        if refusal is not None and now >= refusal.until:
            again = EnsureDependents() if refusal.pod is None else TryPod(refusal.pod)
            actions.append(again)
        elif refusal is None:
            actions = _without_refused(actions, memory, now)
        if _is_unwritten(job, judgement):
            # Until then, pods may be all that knows of the end.
            actions = [a for a in actions if not isinstance(a, DeletePod | SetFinalizers)]
        if memory.address and plan.workers and _is_cut_off(job, scene.services):
            actions.insert(0, EnsureDependents())
        told = None if _is_over(judgement) else plan
        return actions + self._report(job, judgement, told, scene.progress.get(job.uid), now)

    def _plan(
        self,
        scene: ClusterSnapshot,
        jobs: Mapping[str, JobSpec],
        asked: Iterable[ClusterJob],
        lacking: Collection[str],
    ) -> tuple[ClusterPlan, dict[str, str]]:
        """Return the plan, and the nodes of the coordinators that some jobs lack, by uid."""
        known = sorted(asked, key=lambda each: (each.submitted, each.id))
        floors = {each.id: float(each.workers.least * each.workers.cpus_least) for each in known}
        # Do not subtract what ended jobs request either: it is about to be free.
        floors |= {uid: 0.0 for uid in jobs if uid not in floors}
        ours = OwnPods(frozenset(floors), scene.now, scene.only_in)

        def plan(
            trainings: Sequence[ClusterJob],
            found: Sequence[NodeCapacity],
            new: Sequence[JobSpec] = (),
        ) -> ClusterPlan:
            patience = self._timings.patience
            quotas = namespace_quotas(scene.quotas, scene.pods, ours, new)
            return make_plan(
                trainings, found, scene.now, self._policy, quotas=quotas, patience=patience
            )

        found = rooms(scene.nodes, scene.pods, floors, ours)
        if scene.now < self._compared_at + _COMPARE_SECONDS:
            known = with_speeds(known, held_speeds(known, self._speeds))
        else:
            self._compared_at = scene.now
        first, self._speeds = steady_plan(known, self._speeds, lambda jobs: plan(jobs, found))
        begun = [
            (jobs[each.id], each.allowed)
            for each in known
            if each.id in lacking and first.jobs[each.id].workers
        ]
        if not begun:
            return first, {}
        less, seats = seated(found, begun)
        held = with_speeds(known, self._speeds)
        return plan(held, less, [job for job, _ in begun]), seats

    def _pods(
        self, pods: Iterable[Manifest]
    ) -> tuple[dict[str, tuple[PodStatus, ...]], dict[str, str]]:
        """Return the pods of each job, and why one of it cannot be read; both by the job's uid.

        Unchanged pods are not parsed again.
        """
        before, self._seen = self._seen, {}
        found: dict[str, list[PodStatus]] = defaultdict(list)
        unread: dict[str, str] = {}
        for pod in pods:
            metadata = pod["metadata"]
            if resource_names.ROLE not in (metadata.get("labels") or {}):
                continue
            uid, version = metadata["uid"], metadata["resourceVersion"]
            known = before.get(uid)
            try:
                one = known[1] if known is not None and known[0] == version else see(pod)
            except Exception as error:  # Whatever it is, it is the problem of one job.
                unread[owner_uid(pod)] = f"its pod {metadata['name']} cannot be read: {error!r}"
                continue
            self._seen[uid] = version, one
            found[owner_uid(pod)].append(one)
        return {uid: tuple(each) for uid, each in found.items()}, unread

    def _remember(
        self,
        job: JobSpec,
        pods: Iterable[PodStatus],
        judgement: ObservedState,
        progress: TrainingProgress | None,
        now: float,
    ) -> None:
        memory = self.memories[job.uid]
        memory.tidy((pod.uid for pod in pods), now)
        if memory.refused is not None and memory.refused.generation != job.generation:
            memory.refused = None
        if progress is not None and progress.phase == "steady":
            mine = size(judgement.workers, progress.holders)
            memory.speed.note(now, progress.step, mine, progress.generation)

    def _broken(self, job: JobSpec, problem: str, now: float) -> JobDecision:
        memory = self.memories[job.uid]
        if memory.problem != problem:
            memory.problem = problem
            _log.warning("%s/%s: %s", *job.key, problem)
        try:
            after = job_status.broken(job.status, job.generation, problem, now)
            change = job_status.change(job.status, after)
        except Exception:  # Its status is no better than its spec.
            _log.exception("%s/%s: no status can be made", *job.key)
            return JobDecision(job, ())
        actions: list[Action] = []
        if change:
            actions = [WriteStatus(change), EmitEvent("InvalidSpec", problem, is_warning=True)]
        return JobDecision(job, tuple(actions))

    def _report(
        self,
        job: JobSpec,
        judgement: ObservedState,
        plan: JobPlan | None,
        progress: TrainingProgress | None,
        now: float,
    ) -> list[Action]:
        memory = self.memories[job.uid]
        after = job_status.status(job, judgement, plan, progress, memory, now, self._timings)
        change = job_status.change(job.status, after)
        is_due = now >= memory.reported_at + self._timings.report
        if not change or (change.keys() <= {"progress"} and not is_due):
            return []
        memory.reported_at = now
        return [WriteStatus(change), *_told(job.status, after)]

    def _review_at(
        self, planned: ClusterPlan, made: Mapping[str, JobDecision], now: float
    ) -> float:
        times = [now + self._timings.look]
        if planned.review_at is not None:
            times.append(planned.review_at)
        for uid, each in made.items():
            memory, judgement = self.memories.get(uid), each.judgement
            if memory is not None and memory.refused is not None and memory.refused.until > now:
                times.append(memory.refused.until)
            if judgement is None or memory is None:
                continue
            times += [at for at in (judgement.start_at, judgement.helpers_at) if at > now]
            times += memory.avoided.values()
            times += [until for _, until in memory.limits.values()]
            is_waiting = judgement.is_ending or each.job.deleted is not None
            pods = (*judgement.workers, *judgement.servers)
            if is_waiting or any(p.unscheduled or p.waiting or p.resize for p in pods):
                times.append(now + _SOON_SECONDS)
        return max(now + 0.01, min(times))


def _is_cut_off(job: JobSpec, services: frozenset[tuple[str, str]] | None) -> bool:
    """Return whether the Service by which workers know the coordinator is missing."""
    key = job.namespace, resource_names.service_name(job.name)
    return services is not None and key not in services


class _UnreadPodError(Exception):
    """A pod of a job cannot be read. The message says which and why."""


@contextmanager
def _alone(job: JobSpec, wrong: dict[str, tuple[JobSpec, str]]) -> Iterator[None]:
    """Make a failure with a job the problem of that job alone, and add the job to `wrong`."""
    try:
        yield
    except _UnreadPodError as error:
        wrong[job.uid] = job, str(error)
    except Exception as error:
        _log.debug("%s/%s", *job.key, exc_info=True)
        wrong[job.uid] = job, f"nothing can be decided about this job: {error!r}"


@contextmanager
def _uncollected() -> Iterator[None]:
    """Disable the cyclic garbage collector, which takes a third of a decision's time.

    This holds for a large cluster: there are many objects, and none of those that a decision
    creates are in cycles.
    """
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


def _held_back(judgement: ObservedState, memory: JobCache) -> ApiRefusal | None:
    """Return the refusal for which a job without workers gets no CPUs; None if there is none.

    Others have the CPUs until it is known that what was refused would be admitted.
    """
    refusal = memory.refused
    return None if refusal is None or refusal.is_allowed or judgement.workers else refusal


def _given_up(
    judgement: ObservedState, memory: JobCache, now: float, timings: Timings
) -> ObservedState:
    """Return the state of a job, which has failed if what it needs is refused for too long.

    A quota is not a reason to fail: others give back what they have of it. Neither is a namespace
    that is being terminated: the job goes with it.
    """
    refusal = memory.refused
    if refusal is None or refusal.is_allowed or judgement.workers:
        return judgement
    if refusal.reason not in ("PodRefused", "DependentsRefused"):
        return judgement
    if judgement.phase in ENDED or judgement.is_ending or now < refusal.since + timings.stuck:
        return judgement
    return replace(judgement, phase="Failed", reason=refusal.reason, message=refusal.message)


def _without_refused(actions: list[Action], memory: JobCache, now: float) -> list[Action]:
    """Return the actions without creations of what would be refused again."""
    refusal = memory.refused
    if refusal is None or refusal.is_allowed:
        return actions
    if not any(isinstance(each, CreatePod | EnsureDependents) for each in actions):
        memory.refused = None
    if memory.refused is None or now >= refusal.until:
        return actions
    return [each for each in actions if not isinstance(each, CreatePod | EnsureDependents)]


def _is_over(judgement: ObservedState) -> bool:
    return judgement.phase in ENDED or judgement.is_ending


def _is_unwritten(job: JobSpec, judgement: ObservedState) -> bool:
    """Return whether a job or its training has ended without its status saying so."""
    has_just_ended = judgement.phase in ENDED and job.status.get("phase") != judgement.phase
    return has_just_ended or (judgement.is_ending and not has_trained(job))


def _decision(
    job: JobSpec, judgement: ObservedState, plan: JobPlan, actions: Iterable[Action]
) -> JobDecision:
    running = [pod for pod in judgement.coordinators if pod.is_running and pod.ip]
    return JobDecision(
        job,
        tuple(actions),
        running[-1].ip if running and judgement.phase not in ENDED else "",
        len(plan.workers),
        len(plan.servers),
        judgement,
    )


def _taken(pods: Iterable[Manifest]) -> dict[tuple[str, str], set[tuple[str, int]]]:
    """Return the roles and numbers in use by pods, by namespace and name of their jobs."""
    found: dict[tuple[str, str], set[tuple[str, int]]] = defaultdict(set)
    for pod in pods:
        metadata = pod["metadata"]
        labels = metadata.get("labels") or {}
        member = labels.get(resource_names.MEMBER, "")
        if resource_names.JOB in labels and member.isdigit():
            key = metadata["namespace"], labels[resource_names.JOB]
            found[key].add((labels.get(resource_names.ROLE, ""), int(member)))
    return found


def _told(before: Manifest, after: Mapping[str, Any]) -> list[Action]:
    """Return the events for a change of status."""
    made: list[Action] = []
    conditions = {one["type"]: one for one in after["conditions"]}
    known = {one["type"]: one for one in before.get("conditions") or ()}
    phase = after["phase"]
    if phase != before.get("phase"):
        message = conditions["Complete"]["message"] if phase in ENDED else f"the job is {phase}"
        made.append(EmitEvent(phase, message, is_warning=phase == "Failed"))
    for kind in ("Healthy", "Resizing"):
        new, old = conditions[kind], known.get(kind, {})
        is_bad = (new["status"] == "True") == (kind == "Resizing")
        if is_bad and new["reason"] not in (old.get("reason"), "InProgress"):
            made.append(EmitEvent(new["reason"], new["message"], is_warning=True))
    return made
