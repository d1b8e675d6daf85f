# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Replay: a workload made from a controller's history, to simulate it under other conditions. Pure.

The work of each job is chosen so that the job takes its real time with the cores that it really
had, when it had them. Differences in a simulation are therefore due to what is simulated:
another policy, or another machine.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

from tf_malleable.api.schema.history import History, JobRecord, Span
from tf_malleable.model import Shape
from tf_malleable.simulate.engine.task import Task
from tf_malleable.simulate.engine.workload import Assumed, Workload
from tf_malleable.simulate.workloads.known_curves import KnownCurve, KnownCurves, own_rates, program
from tf_malleable.simulate.workloads.time_with_cores import CoreTime, between, stretches, work

# Seconds. Minimum work of a job, even if it only waited for input.
_LEAST_WORK = 1e-6

_NEVER_RAN = "ended before they had cores"
_NO_TIME = "had cores for no time"


def replayed(history: History, assumed: Assumed, others: Sequence[JobRecord] = ()) -> Workload:
    """Return the jobs of a history as a workload to simulate.

    Values that the history does not contain are assumed, and the workload says for how many
    jobs. Jobs that never ran and live jobs are left out.

    Args:
        history: Ended jobs and their spans. A job without spans is assumed to have had the
            mean of its cores all the time.
        assumed: Curve of jobs whose speeds are known for fewer than two numbers of cores, and
            shape and start of jobs whose record does not contain them. The steps are not
            assumed, as a record says whether a job reported any.
        others: Jobs that are not simulated, but whose speeds count like those of the history.

    Raises:
        ValueError: A job cannot be simulated; the message says which, and why.
    """
    spans: defaultdict[str, list[Span]] = defaultdict(list)
    for span in history.spans:
        spans[span.job].append(span)
    left_out = Counter(reason for job in history.jobs if (reason := _why_not(job)))
    jobs = [job for job in history.jobs if not _why_not(job)]
    curves = KnownCurves([*others, *jobs])
    zero = min((job.submitted for job in jobs), default=0.0)
    notes: Counter[str] = Counter()
    tasks = []
    for job in jobs:
        seen = _Seen(job, stretches(job, spans[job.id]), curves.of(job))
        try:
            tasks.append(_task(seen, assumed, zero))
        except ValueError as error:
            raise ValueError(f"job {job.id} of the history cannot be simulated: {error}") from None
        notes.update(_assumptions(seen, assumed, any(map(_is_running, spans[job.id]))))
    count = f"of {len(jobs)} jobs" if len(jobs) > 1 else "of 1 job"
    return Workload(
        name="history",
        tasks=tuple(sorted(tasks, key=lambda task: task.at)),
        left_out=left_out,
        assumed=tuple(f"{number} {count}: {note}" for note, number in notes.items()),
    )


def _why_not(job: JobRecord) -> str | None:
    """Return why a job is left out; None if it is simulated."""
    if job.started is None:
        return _NEVER_RAN
    return None if job.service_seconds > 0 else _NO_TIME


def _is_running(span: Span) -> bool:
    return span.state == "running"


@dataclass(frozen=True)
class _Seen:
    """Knowledge about a job.

    Attributes:
        job: Record of the job.
        time: Time with cores.
        curve: Speed-up curve; None if unknown.
    """

    job: JobRecord
    time: tuple[CoreTime, ...]
    curve: KnownCurve | None

    def shape(self, assumed: Assumed) -> Shape:
        """Return the recorded shape, or else an assumed one."""
        job = self.job
        if job.min is not None and job.preferred is not None and job.max is not None:
            return Shape(job.min, job.preferred, job.max)
        most = max(1, *(stretch.cores for stretch in self.time))
        return Shape(1 if assumed.malleable else most, most, most)


def _task(seen: _Seen, assumed: Assumed, zero: float) -> Task:
    job, curve = seen.job, seen.curve or assumed.curve
    ran, is_finished = job.service_seconds, job.outcome == "finished"
    first = job.first_step_seconds
    start = min(ran, assumed.starting if first is None else first)
    fetching = 0.0 if first is None else min(start, job.first_idle_seconds or 0.0)
    # The end phase of a failed job is part of its work: it is not simulated.
    end = min(ran - start, (job.last_step_seconds or 0.0) if is_finished else 0.0)
    middle = ran - start - end
    idle = min(middle, job.idle_seconds or 0.0)
    waits = max(1, job.idle_phases or 0) if idle else 0
    inner = between(seen.time, start, end)
    covered = sum(stretch.seconds for stretch in inner)
    # Time whose spans are gone is assumed to be like the rest.
    done = work(inner, idle * covered / middle, curve) * middle / covered if covered else 0.0
    done = max(_LEAST_WORK, done)
    return Task(
        name=program(job),
        at=job.submitted - zero,
        seconds=done,
        curve=curve,
        shape=seen.shape(assumed),
        command=tuple(job.command),
        user=job.user,
        priority=job.priority or 0,
        weight=1.0 if job.weight is None else job.weight,
        expected=job.expected,
        steps=job.steps or None,
        told=job.steps_total,
        starting=start - fetching,
        fetching=fetching,
        ending=end,
        busy=done / (waits + 1) if waits else math.inf,
        idle=idle / waits if waits else 0.0,
        fails_at=None if is_finished else 1.0,
    )


def _assumptions(seen: _Seen, assumed: Assumed, has_spans: bool) -> Sequence[str]:
    """Return the assumptions about a job, each as half a sentence."""
    notes = []
    if seen.job.outcome in ("cancelled", "interrupted", "unknown"):
        notes.append("cancelled or with an unknown end, so they fail once they have done the same")
    if not has_spans:
        notes.append("the number of cores over time is unknown, so it is its mean")
    return [*notes, *_assumed_speeds(seen, assumed), *_assumed_facts(seen.job, assumed)]


def _assumed_speeds(seen: _Seen, assumed: Assumed) -> Sequence[str]:
    curve = seen.curve
    notes = []
    if curve is None:
        notes.append(
            "speeds are known for fewer than two numbers of cores, so the speed-up is"
            f" {assumed.curve_text}"
        )
    elif curve.rates[0].cores > 1:
        notes.append("the speed with 1 core is not known, so it is by the law that fits the others")
    if curve is not None and len(own_rates(seen.job)) < 2:
        notes.append("the speed-up is that of other jobs of the same name")
    if curve is not None and curve.rates[-1].cores < seen.shape(assumed).max:
        notes.append("speeds with more cores than were measured are by the law that fits these")
    return notes


def _assumed_facts(job: JobRecord, assumed: Assumed) -> Sequence[str]:
    notes = []
    if job.max is None:
        least = "at least 1" if assumed.malleable else "no fewer"
        notes.append(f"the requested cores are unknown, so they are the most they had, and {least}")
    if job.first_step_seconds is None:
        notes.append(f"the start-up time is unknown, so it is {assumed.starting:g} s")
    if job.idle_seconds is None:
        notes.append("waits for input are unknown, so there are none")
    if job.steps and job.steps_total is None:
        notes.append("the total number of steps is unknown, so it is the number done")
    if job.mem is not None or job.gpus:
        notes.append("memory and GPUs are always free")
    if program(job) != job.name:
        notes.append("they have the name of their array, without their index")
    return notes
