# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Changes that people may make to a live job."""

from __future__ import annotations

from dataclasses import replace

from tf_malleable.api.schema.refusal import Refusal
from tf_malleable.api.schema.requests import JobChange, LimitsBetween
from tf_malleable.controller.jobs.live_job import LiveJob
from tf_malleable.controller.quotas.quota_check import QuotaCheck
from tf_malleable.controller.scheduler.reactor import Reactor
from tf_malleable.model.schedules.time_window import parse_window
from tf_malleable.model.services.slo import Slo, parse_slo
from tf_malleable.model.units import cores as cores_of
from tf_malleable.scheduling.records.job_record import Record
from tf_malleable.scheduling.records.limit_schedule import WindowLimits, with_most

_MOST_WINDOWS = 20


def check_cores(reactor: Reactor, quotas: QuotaCheck, live: LiveJob, cores: int | None) -> None:
    """Check that a job's number of cores can be set by hand.

    Args:
        reactor: Has the machine and the live jobs.
        quotas: Checks the user's quota.
        live: The job.
        cores: Number of cores; None, which is always possible, returns the job to the policy.

    Raises:
        Refusal: 409; the number would exceed the user's quota, or the CPUs that are not set by
            hand for other jobs.
    """
    if cores is None:
        return
    quotas.by_hand(live.record, cores)
    others = sum(o.record.by_hand or 0 for o in reactor.roster.live.values() if o is not live)
    total = len(reactor.machine.cpus)
    left = total - others
    if cores > left:
        is_left = "is left" if left == 1 else "are left"
        taken = ", the others are set by hand for other jobs" if others else ""
        raise Refusal(
            409,
            f"cannot set {cores_of(cores)}: only {left} of {total} {is_left}{taken}",
        )


def changed(record: Record, change: JobChange, cpus: int) -> Record:
    """Return a job's record after a change of its request.

    If `preferred` was equal to `max`, it follows the new `max`, which is at most all CPUs.

    Args:
        record: Record of the job.
        change: The change.
        cpus: Number of CPUs shared out.

    Raises:
        Refusal: 400; the new numbers contradict the others, or the objective is none.
    """
    shape, most = record.shape, change.max
    if most is not None:
        _check_most(record, most)
        shape = with_most(shape, min(most, cpus))
    priority = record.priority if change.priority is None else change.priority
    return replace(record, shape=shape, priority=priority, slo=_slo(record, change.slo))


def _slo(record: Record, text: str | None) -> Slo | None:
    if text is None:
        return record.slo
    try:
        return None if text == "none" else parse_slo(text)
    except ValueError as error:
        raise Refusal(400, f"{error}; none takes it away") from None


def with_window(record: Record, asked: LimitsBetween, cpus: int) -> Record:
    """Return a job's record with limits inside one more time window.

    Args:
        record: Record of the job, with the limits outside of all windows.
        asked: The window and its limits; those that the same window had are replaced.
        cpus: Number of CPUs shared out.

    Raises:
        Refusal: 400; there is no such window, or the limits contradict the job's others. 409; the
            job has too many windows.
    """
    try:
        window = parse_window(asked.between, asked.days)
    except ValueError as error:
        raise Refusal(400, str(error)) from None
    if asked.cores is None and asked.max is None and asked.priority is None:
        raise Refusal(400, "a time window needs a limit: cores, max or priority")
    if asked.max is not None:
        _check_most(record, asked.max)
    if asked.cores is not None and asked.cores > cpus:
        raise Refusal(409, f"cannot set {cores_of(asked.cores)}: there are only {cpus}")
    most = None if asked.max is None else min(asked.max, cpus)
    others = [each for each in record.schedule if each.window != window]
    if len(others) >= _MOST_WINDOWS:
        raise Refusal(409, f"job {record.id} has {_MOST_WINDOWS} time windows, and no more can be")
    limits = WindowLimits(window, asked.cores, most, asked.priority)
    return replace(record, schedule=(*others, limits))


def _check_most(record: Record, most: int) -> None:
    if most < record.shape.min:
        raise Refusal(
            400, f"max must be an integer from {record.shape.min}, the job's min, not {most}"
        )
