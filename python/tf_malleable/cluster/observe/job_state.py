# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Observed state of a job, from its pods: members present, pods to drop, crashes, phase. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import Final, Literal

from tf_malleable.cluster import resource_names
from tf_malleable.cluster.job_spec import JobSpec, seconds_of
from tf_malleable.cluster.observe.pod_status import PodStatus
from tf_malleable.cluster.observe.training_progress import TrainingProgress
from tf_malleable.cluster.settings import Timings

JobPhase = Literal["Pending", "Running", "Suspended", "Succeeded", "Failed"]
ENDED: Final[tuple[JobPhase, ...]] = ("Succeeded", "Failed")
# A crash of a coordinator or server is forgotten after this time, once the training reports.
_FORGOTTEN_SECONDS: Final = 120.0
# Time that the coordinator may take to learn of the last worker's end.
_LAST_WORD_SECONDS: Final = 3.0


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
        is_ending: True once a worker has reached the training's end.
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


def judge(
    job: JobSpec,
    pods: Sequence[PodStatus],
    progress: TrainingProgress | None,
    ready: Collection[str],
    now: float,
    timings: Timings,
) -> ObservedState:
    """Return the observed state of a job.

    Args:
        job: The job.
        pods: All pods of the job.
        progress: Progress that the coordinator reports; None if there is no recent report.
        ready: Names of the nodes that run pods.
        now: Current time, in seconds since the epoch.
        timings: Timeouts and intervals.
    """
    dropped = _dropped(pods, ready, now, timings)
    gone = {pod.uid for pod, _ in dropped}

    def present(role: str) -> tuple[PodStatus, ...]:
        found = [p for p in pods if p.role == role and p.is_present and p.uid not in gone]
        return tuple(sorted(found, key=lambda pod: (pod.created, pod.member)))

    workers = present(resource_names.WORKER)
    holders = _holders(workers, progress)
    crashes = _crashes(pods, holders, progress)
    helpers = [
        p for p in pods if p.role != resource_names.WORKER and p.end and p.end.kind == "crashed"
    ]
    old = [p for p in helpers if p.end and p.end.at < now - _FORGOTTEN_SECONDS]
    dropped += [(pod, "Forgotten") for pod in old if progress is not None and progress.workers]
    dropped += [(pod, "Forgiven") for pod in crashes.forgiven]
    ends = [
        p for p in pods if p.role == resource_names.WORKER and p.end and p.end.kind == "trained"
    ]
    is_ending = bool(ends) or (progress is not None and progress.is_over)
    has_started = bool(job.status.get("startedAt")) or any(
        p.is_running or (p.end is not None and p.end.code is not None)
        for p in pods
        if p.role == resource_names.WORKER
    )
    last = max((p.end.at for p in helpers if p.end), default=0.0)
    phase, reason, message = _phase(job, pods, workers, bool(ends), crashes, helpers, now, timings)
    ended = max((pod.end.at for pod in ends if pod.end), default=0.0)
    is_behind = progress is not None and not progress.is_over and now < ended + _LAST_WORD_SECONDS
    if phase == "Succeeded" and job.status.get("phase") not in ENDED and is_behind:
        phase, reason, message = "Running", "Ending", "all workers have come to the training's end"
    return ObservedState(
        phase,
        reason,
        message,
        workers,
        present(resource_names.SERVER),
        present(resource_names.COORDINATOR),
        tuple(dropped),
        holders,
        crashes,
        crashes.at + _delay(crashes.count, timings),
        last + _delay(len(helpers), timings),
        is_ending,
        has_started,
    )


def _delay(crashes: int, timings: Timings) -> float:
    """Return the delay after this number of crashes, in seconds; 0 after the first one."""
    if crashes < 2:
        return 0.0
    return min(timings.longest_backoff, timings.backoff * 2.0 ** min(crashes - 2, 30))


def _dropped(
    pods: Iterable[PodStatus], ready: Collection[str], now: float, timings: Timings
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
        elif pod.unscheduled and now >= pod.unscheduled[1] + timings.unscheduled:
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


def _phase(
    job: JobSpec,
    pods: Sequence[PodStatus],
    workers: Sequence[PodStatus],
    has_end: bool,
    crashes: Crashes,
    helpers: Sequence[PodStatus],
    now: float,
    timings: Timings,
) -> tuple[JobPhase, str, str]:
    """Return phase, reason and message."""
    before = job.status.get("phase")
    if before in ENDED:
        known = _condition(job, "Complete" if before == "Succeeded" else "Failed")
        return before, *known
    running = [pod for pod in workers if pod.is_running]
    if has_end and not workers:
        return "Succeeded", "Trained", "all workers have come to the training's end"
    if not running and not has_end:
        if crashes.count > job.backoff_limit:
            limit = f"{crashes.count} crashes in a row, and backoffLimit is {job.backoff_limit}"
            return "Failed", "BackoffLimitExceeded", f"{limit}: {crashes.why}"
        if len(helpers) > job.backoff_limit:
            said = f"{helpers[-1].name} and others before it have crashed"
            return "Failed", "CoordinatorFailed", said
        stuck = [pod for pod in workers if pod.waiting]
        since = max((pod.created for pod in workers), default=now)
        if stuck and len(stuck) == len(workers) and now >= since + timings.stuck:
            reason, message = stuck[0].waiting or ("", "")
            return "Failed", reason, f"{stuck[0].name} does not start: {message or reason}"
    if running:
        return "Running", "Training", ""
    if job.suspend and not any(p.role == resource_names.WORKER and p.is_leaving for p in pods):
        return "Suspended", "Suspended", "spec.suspend is true"
    return "Pending", "NoWorkers", ""


def _condition(job: JobSpec, kind: str) -> tuple[str, str]:
    found = [one for one in job.status.get("conditions") or () if one["type"] == kind]
    return (found[0]["reason"], found[0]["message"]) if found else (kind, "")


def started_at(job: JobSpec) -> float | None:
    """Return the start of a job's first worker, in seconds since the epoch; None before it."""
    return seconds_of(job.status.get("startedAt")) or None
