# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Observed state of a job, from its pods: members present, pods to drop, crashes, phase. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Literal

from tf_malleable.cluster import resource_names
from tf_malleable.cluster.job_spec import JobSpec, seconds_of
from tf_malleable.cluster.observe.pod_status import PodStatus
from tf_malleable.cluster.observe.training_progress import TrainingProgress
from tf_malleable.cluster.settings import Timings

TRAINED: Final = "SuccessCriteriaMet"
"""Condition of a job whose training has come to its end, as of a Kubernetes Job before it ends."""
JobPhase = Literal["Pending", "Running", "Suspended", "Succeeded", "Failed"]
ENDED: Final[tuple[JobPhase, ...]] = ("Succeeded", "Failed")
# A crash of a coordinator or server is forgotten after this time, once the training reports.
_FORGOTTEN_SECONDS: Final = 120.0
# Time that the coordinator may take to learn of the last worker's end.
_LAST_WORD_SECONDS: Final = 3.0
_NOTHING_HELD: Final[Mapping[str, float]] = {}


@dataclass(frozen=True)
class Crashes:
    """Crashes of workers in a row, without a step of a newly started worker in between.

    Attributes:
        count: Number of crashes.
        step: Step of the training at the last crash.
        at: Time of the last crash, in seconds since the epoch.
        why: Pod of the last crash and how it ended, for people.
        fresh: Pods whose crash is not annotated yet, each with its number in the row.
        forgiven: Pods whose crashes no longer count.
    """

    count: int = 0
    step: int = 0
    at: float = 0.0
    why: str = ""
    fresh: tuple[tuple[PodStatus, int], ...] = ()
    forgiven: tuple[PodStatus, ...] = ()


@dataclass(frozen=True)
class ObservedState:
    """Observed state of a job.

    Attributes:
        phase: Phase of the job.
        reason: Reason for the phase, in one word.
        message: The reason for people.
        workers: Workers present, including pending ones.
        servers: Servers present, including pending ones.
        coordinators: Coordinators present, including pending ones.
        dropped: Pods to delete whatever the plan is, each with the reason in one word.
        holders: Uids of the workers that hold the training's state.
        crashes: Crashes of the workers.
        start_at: Earliest time to start a worker, in seconds since the epoch.
        helpers_at: Earliest time to start a server or coordinator, in seconds since the epoch.
        is_ending: True once a worker has reached the training's end, or the job's status says so.
        has_started: True if a worker runs or has run.
    """

    phase: JobPhase
    reason: str
    message: str = ""
    workers: tuple[PodStatus, ...] = ()
    servers: tuple[PodStatus, ...] = ()
    coordinators: tuple[PodStatus, ...] = ()
    dropped: tuple[tuple[PodStatus, str], ...] = ()
    holders: frozenset[str] = frozenset()
    crashes: Crashes = Crashes()
    start_at: float = 0.0
    helpers_at: float = 0.0
    is_ending: bool = False
    has_started: bool = False


@dataclass(frozen=True)
class _Members:
    """Pods of a job, by their role and what has become of them.

    Attributes:
        workers: Workers present.
        servers: Servers present.
        coordinators: Coordinators present.
        trained: Workers that have come to the training's end.
        crashed_helpers: Servers and coordinators that have crashed.
        is_worker_leaving: True if a worker is being deleted.
        has_worker_run: True if a worker runs or has run.
    """

    workers: tuple[PodStatus, ...]
    servers: tuple[PodStatus, ...]
    coordinators: tuple[PodStatus, ...]
    trained: tuple[PodStatus, ...]
    crashed_helpers: tuple[PodStatus, ...]
    is_worker_leaving: bool
    has_worker_run: bool


@dataclass(frozen=True)
class _PhaseReason:
    """Phase of a job, with the reason as in ObservedState."""

    phase: JobPhase
    reason: str
    message: str = ""


def judge(
    job: JobSpec,
    pods: Sequence[PodStatus],
    progress: TrainingProgress | None,
    ready: Collection[str],
    now: float,
    timings: Timings,
    held: Mapping[str, float] = _NOTHING_HELD,
) -> ObservedState:
    """Return the observed state of a job.

    Args:
        job: The job.
        pods: All pods of the job.
        progress: Progress that the coordinator reports; None if there is no recent report.
        ready: Names of the nodes that run pods.
        now: Current time, in seconds since the epoch.
        timings: Timeouts and intervals.
        held: Times until which pods that are being deleted may keep what they request, by node,
            in seconds since the epoch.
    """
    dropped = _dropped(pods, ready, now, timings, held)
    members = _members(pods, {pod.uid for pod, _ in dropped})
    holders = _holders(members.workers, progress)
    crashes = _crashes(pods, holders, progress)
    dropped += _forgotten(members.crashed_helpers, progress, now)
    dropped += [(pod, "Forgiven") for pod in crashes.forgiven]
    is_ending = bool(members.trained) or (progress is not None and progress.is_over)
    is_ending = is_ending or has_trained(job)
    phase = _phase(job, members, crashes, now, timings, is_ending=is_ending)
    if phase.phase == "Succeeded" and _has_last_word_to_come(job, members, progress, now):
        phase = _PhaseReason("Running", "Ending", "all workers have come to the training's end")
    helpers = members.crashed_helpers
    return ObservedState(
        phase.phase,
        phase.reason,
        phase.message,
        members.workers,
        members.servers,
        members.coordinators,
        tuple(dropped),
        holders,
        crashes,
        start_at=crashes.at + _delay(crashes.count, timings),
        helpers_at=_last_end(helpers) + _delay(len(helpers), timings),
        is_ending=is_ending,
        has_started=bool(job.status.get("startedAt")) or members.has_worker_run,
    )


def _members(pods: Sequence[PodStatus], gone: Collection[str]) -> _Members:
    """Return the pods by role; those with the uids in `gone` are not present."""

    def present(role: str) -> tuple[PodStatus, ...]:
        found = [p for p in pods if p.role == role and p.is_present and p.uid not in gone]
        return tuple(sorted(found, key=lambda pod: (pod.created, pod.member)))

    workers = [pod for pod in pods if pod.role == resource_names.WORKER]
    helpers = [pod for pod in pods if pod.role != resource_names.WORKER]
    return _Members(
        present(resource_names.WORKER),
        present(resource_names.SERVER),
        present(resource_names.COORDINATOR),
        tuple(pod for pod in workers if pod.end and pod.end.kind == "trained"),
        tuple(pod for pod in helpers if pod.end and pod.end.kind == "crashed"),
        any(pod.is_leaving for pod in workers),
        any(pod.is_running or (pod.end and pod.end.code is not None) for pod in workers),
    )


def _last_end(pods: Iterable[PodStatus]) -> float:
    """Return the time of the last end of these pods, in seconds since the epoch; 0 if none."""
    return max((pod.end.at for pod in pods if pod.end), default=0.0)


def _has_last_word_to_come(
    job: JobSpec, members: _Members, progress: TrainingProgress | None, now: float
) -> bool:
    """Return whether the coordinator is about to learn of the last worker's end."""
    if job.status.get("phase") in ENDED or progress is None or progress.is_over:
        return False
    return now < _last_end(members.trained) + _LAST_WORD_SECONDS


def _forgotten(
    helpers: Iterable[PodStatus], progress: TrainingProgress | None, now: float
) -> list[tuple[PodStatus, str]]:
    """Return the crashed helpers that no longer count, as the training goes on without them."""
    if progress is None or not progress.workers:
        return []
    before = now - _FORGOTTEN_SECONDS
    return [(pod, "Forgotten") for pod in helpers if pod.end and pod.end.at < before]


def _delay(crashes: int, timings: Timings) -> float:
    """Return the delay after this number of crashes, in seconds; 0 after the first one."""
    if crashes < 2:
        return 0.0
    return min(timings.longest_backoff, timings.backoff * 2.0 ** min(crashes - 2, 30))


def _dropped(
    pods: Iterable[PodStatus],
    ready: Collection[str],
    now: float,
    timings: Timings,
    held: Mapping[str, float],
) -> list[tuple[PodStatus, str]]:
    found: list[tuple[PodStatus, str]] = []
    for pod in pods:
        if pod.is_leaving:
            continue
        if pod.end is not None:
            if pod.end.kind in ("left", "lost"):
                found.append((pod, pod.end.reason))
        elif pod.node and pod.node not in ready:
            found.append((pod, "NodeLost"))
        elif pod.unscheduled:
            since = max(pod.unscheduled[1], held.get(pod.node, 0.0))
            if now >= since + timings.unscheduled:
                found.append((pod, "Unschedulable"))
    return found


def _holders(workers: Iterable[PodStatus], progress: TrainingProgress | None) -> frozenset[str]:
    """Return the uids of the workers that hold the state.

    They come from the pods' labels if the coordinator does not report them.
    """
    if progress is None or progress.phase != "steady" or not progress.holders:
        return frozenset(pod.uid for pod in workers if pod.is_holder)
    return progress.holders & {pod.uid for pod in workers}


def _crashes(
    pods: Sequence[PodStatus], holders: Collection[str], progress: TrainingProgress | None
) -> Crashes:
    crashed = [
        p
        for p in pods
        if p.role == resource_names.WORKER and p.end is not None and p.end.kind == "crashed"
    ]
    if not crashed:
        return Crashes()
    crashed.sort(key=lambda pod: (pod.end.at if pod.end else 0.0, pod.name))
    noted = [pod.failure for pod in crashed if pod.failure is not None]
    count = max((number for number, _ in noted), default=0)
    known = max((step for _, step in noted), default=0)
    now_at = 0 if progress is None else progress.step
    last = crashed[-1].end
    assert last is not None
    fresh = [pod for pod in crashed if pod.failure is None]
    if not fresh and now_at > known:
        # Holders from before the crash do not count: their labels are older than the crash.
        later = [p for p in pods if p.uid in holders and p.created >= last.at - 1]
        if later:
            return Crashes(forgiven=tuple(crashed))
    numbered = tuple((pod, count + place) for place, pod in enumerate(fresh, 1))
    why = f"{crashed[-1].name} {last}"
    return Crashes(
        count + len(fresh), max(known, now_at if fresh else 0), last.at, why, numbered, ()
    )


def has_trained(job: JobSpec) -> bool:
    """Return whether a job's status says that the training has come to its end."""
    conditions = job.status.get("conditions") or ()
    return any(one["type"] == TRAINED and one["status"] == "True" for one in conditions)


def _phase(
    job: JobSpec,
    members: _Members,
    crashes: Crashes,
    now: float,
    timings: Timings,
    *,
    is_ending: bool,
) -> _PhaseReason:
    before = job.status.get("phase")
    if before in ENDED:
        return _PhaseReason(
            before, *_condition(job, "Complete" if before == "Succeeded" else "Failed")
        )
    if members.trained and not members.workers:
        message = "all workers have come to the training's end"
        return _PhaseReason("Succeeded", "Trained", message)
    if any(pod.is_running for pod in members.workers):
        return _PhaseReason("Running", "Training")
    if is_ending and not members.workers:
        if crashes.count:
            message = f"the training has come to its end, and then {crashes.why}"
            return _PhaseReason("Failed", "CrashedAtEnd", message)
        return _PhaseReason("Succeeded", "Trained", "the training has come to its end")
    failure = None if members.trained else _failure(job, members, crashes, now, timings)
    if failure is not None:
        return failure
    if job.suspend and not members.is_worker_leaving:
        return _PhaseReason("Suspended", "Suspended", "spec.suspend is true")
    return _PhaseReason("Pending", "NoWorkers")


def _failure(
    job: JobSpec, members: _Members, crashes: Crashes, now: float, timings: Timings
) -> _PhaseReason | None:
    """Return why a job without running workers has failed; None if it has not."""
    if crashes.count > job.backoff_limit:
        limit = f"{crashes.count} crashes in a row, and backoffLimit is {job.backoff_limit}"
        return _PhaseReason("Failed", "BackoffLimitExceeded", f"{limit}: {crashes.why}")
    helpers = members.crashed_helpers
    if len(helpers) > job.backoff_limit:
        message = f"{helpers[-1].name} and others before it have crashed"
        return _PhaseReason("Failed", "CoordinatorFailed", message)
    workers = members.workers
    since = max((pod.created for pod in workers), default=now)
    if workers and all(pod.waiting for pod in workers) and now >= since + timings.stuck:
        reason, message = workers[0].waiting or ("", "")
        said = f"{workers[0].name} does not start: {message or reason}"
        return _PhaseReason("Failed", reason, said)
    return None


def _condition(job: JobSpec, kind: str) -> tuple[str, str]:
    found = [one for one in job.status.get("conditions") or () if one["type"] == kind]
    return (found[0]["reason"], found[0]["message"]) if found else (kind, "")


def started_at(job: JobSpec) -> float | None:
    """Return the start of a job's first worker, in seconds since the epoch; None before it."""
    return seconds_of(job.status.get("startedAt")) or None
