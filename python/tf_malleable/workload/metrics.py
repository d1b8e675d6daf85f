# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Metrics of a workload, the same with and without a controller."""

from __future__ import annotations

import time
from collections.abc import Sequence, Set
from dataclasses import dataclass
from pathlib import Path

import msgspec

from tf_malleable.api.schema.history import MOST_HISTORY, History, JobRecord, Outcome, Span
from tf_malleable.api.transport.address import NoAnswerError
from tf_malleable.api.transport.client import Client
from tf_malleable.model import OperationError
from tf_malleable.scheduling.records import metrics
from tf_malleable.workload.plan import PlannedJob

# Number of other jobs that may have ended in the meantime.
_OTHERS = 1000

_PATIENCE_SECONDS = 5.0
_POLL_SECONDS = 0.05

# Exit codes of `tfm run` if it starts no program: refused, bad input, and as in a shell.
_NOT_STARTED = (1, 2, 126, 127)


@dataclass(frozen=True)
class Finished:
    """A job that has ended, as its parent process saw it. Times are Unix times in seconds.

    Attributes:
        job: The planned job.
        id: Job id of the controller; None if the job started without a controller.
        user: Name of the user.
        submitted: Time of the start.
        ended: Time of the end.
        exit_code: Exit code as in a shell.
        cpu_seconds: CPU time of the job and all its children.
        log: File with the output.
    """

    job: PlannedJob
    id: str | None
    user: str
    submitted: float
    ended: float
    exit_code: int
    cpu_seconds: float
    log: Path

    @property
    def outcome(self) -> Outcome:
        """Outcome of the job."""
        return "failed" if self.exit_code else "finished"


def from_outside(finished: Sequence[Finished], cpus: Sequence[int]) -> History:
    """Return the metrics of jobs that could use all of these CPUs from start to end."""
    jobs = sorted(finished, key=lambda each: each.submitted)
    records = [_seen(each, str(number), len(cpus)) for number, each in enumerate(jobs, 1)]
    spans = [
        Span(record.id, record.submitted, record.ended, "running", list(cpus)) for record in records
    ]
    return History(records, spans, metrics.summary(records, len(cpus)))


def from_history(finished: Sequence[Finished], controller: Client, cpus: Sequence[int]) -> History:
    """Return the metrics of jobs from the controller's history.

    Outcome, exit code and CPU time are taken from `finished`, which is more precise. A job that
    the controller does not know was not started, and never had a core, if its exit code is one
    with which `tfm run` starts no program; otherwise it ran without the controller, as in
    from_outside().

    Raises:
        OperationError: The controller does not answer, or has forgotten a job.
    """
    known = {each.id: each for each in finished if each.id is not None}
    history = _history_of(known.keys(), controller)
    records = [_completed(record, known[record.id]) for record in history.jobs]
    strangers = [each for each in finished if each.id is None]
    records += [
        _seen(each, f"-{n}", 0 if each.exit_code in _NOT_STARTED else len(cpus))
        for n, each in enumerate(strangers, 1)
    ]
    records.sort(key=lambda record: record.submitted)
    return History(records, history.spans, metrics.summary(records, len(cpus)))


def _history_of(ids: Set[str], controller: Client) -> History:
    """Return these jobs from the controller's history, once it has all of them."""
    limit = min(len(ids) + _OTHERS, MOST_HISTORY)
    deadline = time.monotonic() + _PATIENCE_SECONDS
    while True:
        missing = ids
        try:
            history = controller.get(f"/v1/history?limit={limit}&spans=true", History)
        except NoAnswerError:  # The controller may be restarting.
            if time.monotonic() > deadline:
                raise
        else:
            jobs = [record for record in history.jobs if record.id in ids]
            missing = ids - {record.id for record in jobs}
            if not missing:
                spans = [span for span in history.spans if span.job in ids]
                return History(jobs, spans, history.summary)
        if time.monotonic() > deadline:
            raise OperationError(
                f"the controller's history does not have job {', '.join(sorted(missing))}"
            )
        time.sleep(_POLL_SECONDS)


def _completed(record: JobRecord, seen: Finished) -> JobRecord:
    outcome = record.outcome if record.outcome == "cancelled" else seen.outcome
    # Processes that have outlived their program were not its children to the end.
    cpu_seconds = max(seen.cpu_seconds, record.cpu_seconds or 0.0)
    return msgspec.structs.replace(
        record, outcome=outcome, exit_code=seen.exit_code, cpu_seconds=cpu_seconds
    )


def _seen(each: Finished, job_id: str, cpus: int) -> JobRecord:
    """Return the metrics of a job that had this many CPUs all the time; 0 if it never started."""
    seconds = each.ended - each.submitted
    served = seconds if cpus else 0.0
    return JobRecord(
        id=job_id,
        name=each.job.request.name,
        command=list(each.job.request.command),
        user=each.user,
        submitted=each.submitted,
        started=each.submitted if cpus else None,
        ended=each.ended,
        outcome=each.outcome,
        exit_code=each.exit_code,
        waiting_seconds=seconds - served,
        service_seconds=served,
        paused_seconds=0.0,
        total_seconds=seconds,
        core_seconds=seconds * cpus,
        cpu_seconds=each.cpu_seconds,
        resizes=0,
        steps=None,
    )
