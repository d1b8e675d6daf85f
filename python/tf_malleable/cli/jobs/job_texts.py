# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Text formatting of jobs and summaries for users."""

from __future__ import annotations

from datetime import datetime

from tf_malleable.api.schema.elastic import Elastic
from tf_malleable.api.schema.history import JobRecord, Summary
from tf_malleable.api.schema.messages import JobStatus, LibraryThreads
from tf_malleable.api.schema.tier_reads import TierReading
from tf_malleable.model.units import duration, printable, size_text


def title(job: JobStatus | JobRecord) -> str:
    """Return a job's id and name."""
    return f"job {job.id} ({printable(job.name)})"


def state(job: JobStatus) -> str:
    """Return a job's state in one word.

    ``"paused"``: paused by a person. ``"stopped"``: stopped by a signal or `docker pause`.
    ``"held"``: held by the policy, which has taken the cores away.
    """
    if job.paused_by_user:
        return "paused"
    if job.stopped:
        return "stopped"
    return "held" if job.state == "paused" else job.state


def outcome(job: JobRecord) -> str:
    """Return the outcome of a job and, in brackets, its cause, if that is known."""
    return job.outcome if job.cause is None else f"{job.outcome} ({job.cause})"


def desired(job: JobStatus) -> str:
    """Return the desired number of cores of a job; a star marks one set by hand."""
    return str(job.desired) if job.by_hand is None else f"{job.desired}*"


def granted(job: JobStatus) -> str:
    """Return the number of granted cores and, after a plus, of those that the job only lends."""
    lent = len({*job.lent} - {*job.granted})
    return f"{len(job.granted)}{f'+{lent}' if lent else ''}"


def actual(job: JobStatus) -> str:
    """Return the number of actual cores of a job, and whether it is only confined to them."""
    return f"{len(job.actual)} confined" if job.confined else str(len(job.actual))


def threads_of(library: LibraryThreads) -> str:
    """Return how a library's threads follow a job's cores, and in which processes."""
    count = "" if library.limit is None else f", {library.limit} of {library.capacity} threads"
    first, *others = library.pids
    more = f" and {len(others)} more" if others else ""
    processes = "processes" if others else "process"
    return f"{library.name}: {library.follows}{count} ({processes} {first}{more})"


def why_waiting(job: JobStatus) -> str:
    """Return the reason why a job has no cores; empty if it has some, or none is known."""
    if job.granted or job.remaining:
        return ""
    return job.reason or ""


def progress(job: JobStatus) -> float | None:
    """Return the share of a job's steps that are done; None if unknown."""
    if job.steps_done is None or not job.steps_total:
        return None
    return min(job.steps_done / job.steps_total, 1.0)


def per_step(amount: float | None, steps: float | None) -> float | None:
    """Return an amount per step; None if unknown."""
    return amount / steps if amount is not None and steps else None


def read_and_saved(reading: TierReading | None) -> tuple[str, str]:
    """Return the sizes read from the source of a data tier, and from copies instead."""
    if reading is None:
        return "-", "-"
    return size_text(reading.source_bytes), size_text(reading.saved_bytes)


def last_change(elastic: Elastic) -> str:
    """Return why and when the current generation of a training began."""
    if elastic.changed is None:
        return "-"
    return f"{elastic.reason or 'change'} at {datetime.fromtimestamp(elastic.changed):%H:%M:%S}"


def summed_up(summary: Summary) -> str:
    """Return the metrics of a whole run as one sentence."""
    failed = f", {summary.failures} of them failed" if summary.failures else ""
    jobs = "1 job" if summary.jobs == 1 else f"{summary.jobs} jobs"
    parts = [
        f"makespan {duration(summary.makespan)}",
        f"mean turnaround {duration(summary.mean_turnaround)}",
        f"mean waiting {duration(summary.mean_waiting)}",
    ]
    if summary.mean_slowdown is not None:
        parts.append(f"mean slowdown {summary.mean_slowdown:.2f}")
    if summary.throughput is not None:
        parts.append(f"{summary.throughput:.3g} jobs/s")
    if summary.utilization is not None:
        parts.append(f"{summary.utilization:.0%} of the core time used")
    return f"{jobs}{failed}: {', '.join(parts)}"
