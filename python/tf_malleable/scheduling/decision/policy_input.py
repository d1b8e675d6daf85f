# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""A job as a policy sees it: its record, its measurements, and lessons of earlier jobs. Pure."""

from __future__ import annotations

from dataclasses import dataclass, field

from tf_malleable.model import Job, Rate
from tf_malleable.model.services.request_load import RequestLoad
from tf_malleable.scheduling.records import time_accounts
from tf_malleable.scheduling.records.job_record import Record
from tf_malleable.scheduling.records.lessons import Lessons
from tf_malleable.scheduling.records.speeds import Speedometer, with_learned

# Relative change of a speed below which it is not news.
_NEWS = 0.05


def rates_of(speed: Speedometer, lessons: Lessons) -> tuple[Rate, ...]:
    """Return recently measured speeds, completed by those of earlier jobs."""
    measured, learned = speed.lately, lessons.rates
    return with_learned(measured, learned) if measured and learned else measured or learned


def expected_seconds(record: Record, lessons: Lessons) -> float | None:
    """Return the expected run time, from the user or else earlier runs; None if unknown."""
    return lessons.expected_seconds if record.expected is None else record.expected


@dataclass(frozen=True)
class Known:
    """Knowledge of a job's speed at some time.

    Attributes:
        speed: Progress of the job.
        rates: Speeds that a policy saw.
    """

    speed: Speedometer = field(default_factory=Speedometer)
    rates: tuple[Rate, ...] = ()

    def is_outdated_by(self, speed: Speedometer, lessons: Lessons) -> bool:
        """Return whether a decision based on this knowledge should be made again.

        That is the case once the job first reports work, has done all of them or reports another
        total, and when a speed becomes known or has changed.
        """
        before = self.speed
        if speed is before or speed.work is None:
            return False
        if before.work is None or speed.total != before.total or speed.is_done != before.is_done:
            return True
        rates = rates_of(speed, lessons)
        if rates == self.rates:
            return False
        then = dict(self.rates)
        return any(
            cores not in then or abs(rate - then[cores]) > _NEWS * then[cores]
            for cores, rate in rates
        )


def job_of(
    record: Record,
    speed: Speedometer,
    lessons: Lessons,
    used_cpus: float | None,
    now: float,
    load: RequestLoad | None = None,
    *,
    elastic: bool = False,
) -> Job:
    """Return a job as a policy sees it at `now`, in seconds on the clock of the record.

    Args:
        record: Record of the job.
        speed: Progress of the job.
        lessons: Lessons of earlier jobs.
        used_cpus: CPUs that the job kept busy or waited for recently; None if unknown.
        now: Current time.
        load: Requests of a service that has an objective; None for other jobs.
        elastic: Whether it is an elastic training.
    """
    # A job that joined while running has had cores, but has no grant yet.
    ungranted = record.state == "running" and not record.grant
    return Job(
        id=record.id,
        shape=record.shape,
        submitted=record.submitted,
        priority=record.priority,
        weight=record.weight,
        state="paused" if ungranted else record.state,
        since=record.entered,
        grant=record.grant,
        started=record.started,
        resized=record.since if record.resizes else None,
        unrest=record.unrest,
        run_seconds=time_accounts.run_seconds(record, now),
        used_cpus=used_cpus,
        steps_done=speed.work,
        steps_total=speed.total,
        rates=rates_of(speed, lessons),
        expected_seconds=expected_seconds(record, lessons),
        startup_seconds=lessons.startup_seconds,
        user=record.counted_for,
        area=record.area,
        load=load,
        elastic=elastic,
    )
