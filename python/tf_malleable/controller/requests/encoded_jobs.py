# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Live jobs as JSON, encoded again only when they have changed, for any number of readers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

import msgspec

from tf_malleable.api.schema.messages import JobStatus
from tf_malleable.controller.jobs.job_views import job_status
from tf_malleable.controller.jobs.live_job import LiveJob
from tf_malleable.controller.requests.callers import Sight
from tf_malleable.controller.scheduler.reactor import Reactor
from tf_malleable.controller.scheduler.reasons import Reasons

# Age up to which durations and measured values of a job that has not changed are up to date.
_FRESH_SECONDS: Final = 0.25
_ANYBODY: Final = Sight(everything=False, user=None, job=None)


@dataclass
class EncodedJob:
    """A job as JSON.

    Attributes:
        key: Key that changes with every visible change of the job except growing durations.
        status: State of the job.
        everything: The state as JSON, for those who may see everything of the job.
    """

    key: tuple[Any, ...]
    status: JobStatus
    everything: msgspec.Raw
    _to_others: msgspec.Raw | None = None

    def to(self, sight: Sight) -> msgspec.Raw:
        """Return the job as JSON, as a caller may see it."""
        if sight.of(self.status) is self.status:
            return self.everything
        if self._to_others is None:
            self._to_others = _raw(_ANYBODY.of(self.status))
        return self._to_others


class EncodedJobs:
    """The live jobs as JSON. Not thread-safe: one asyncio loop."""

    def __init__(self, reactor: Reactor) -> None:
        self._reactor = reactor
        self._known: dict[str, EncodedJob] = {}

    def of(self, live: LiveJob, now: float, reasons: Reasons, *, fresh: bool = False) -> EncodedJob:
        """Return a job.

        Args:
            live: The job.
            now: Unix time in seconds.
            reasons: Reasons at that time.
            fresh: Whether durations and measured values must be up to date, too.
        """
        reason = reasons.of(live)
        key, known = _key(live, reason), self._known.get(live.record.id)
        if known is None:
            jobs = self._reactor.roster.live
            self._known = {job: one for job, one in self._known.items() if job in jobs}
        is_old = fresh and known is not None and abs(now - known.status.as_of) >= _FRESH_SECONDS
        if known is None or known.key != key or is_old:
            status = job_status(live, now, reason=reason)
            known = self._known[live.record.id] = EncodedJob(key, status, _raw(status))
        return known

    def answer(self, sight: Sight) -> bytes:
        """Return all live jobs as :class:`Jobs` in JSON, as a caller may see them."""
        now, live = self._reactor.now(), self._reactor.roster.live
        reasons = Reasons(self._reactor, now)
        found = (bytes(self.of(each, now, reasons, fresh=True).to(sight)) for each in live.values())
        return b'{"jobs":[%b]}' % b",".join(found)


def _key(live: LiveJob, reason: str | None) -> tuple[Any, ...]:
    """Return a key that changes with every visible change of a job except growing durations."""
    used = live.used_cpus
    return (
        live.record,
        live.delivery.in_use,
        live.stopped,
        bool(live.delivery.agents),
        live.processes.libraries,
        live.processes.fixed,
        live.measured.speed,
        live.measured.lessons,
        live.lack,
        live.measured.elastic,
        live.measured.usage.reading,
        # Rounded, as measured values are never the same twice.
        None if used is None else round(used, 1),
        None if live.measured.used_mem is None else live.measured.used_mem >> 20,
        live.measured.usage.watts,
        live.measured.latencies.version,
        reason,
    )


def _raw(status: JobStatus) -> msgspec.Raw:
    return msgspec.Raw(msgspec.json.encode(status))
