# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Numbers and states as people read them."""

from __future__ import annotations

from tf_malleable.controller.messages import JobStatus, Summary


def printable(text: str) -> str:
    """Return text that cannot command the terminal: what jobs are called is anybody's."""
    return "".join(letter if letter.isprintable() else "?" for letter in text)


def number(value: float | None, digits: int = 1) -> str:
    """Return a number, or a dash for what is not known."""
    return "-" if value is None else f"{value:.{digits}f}"


def duration(seconds: float | None) -> str:
    """Return seconds as people read them: 4.2 s, 3:05, 2:10:00."""
    if seconds is None:
        return "-"
    if seconds < 99.95:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"


def cores(count: int) -> str:
    """Return ``"1 core"``, ``"2 cores"``."""
    return f"{count} core" if count == 1 else f"{count} cores"


def state(job: JobStatus) -> str:
    """Return a job's state in a word; held: paused by a person."""
    if job.held:
        return "held"
    return "stopped" if job.stopped else job.state


def desired(job: JobStatus) -> str:
    """Return the cores a job asks for; a star marks those set by hand."""
    return str(job.desired) if job.by_hand is None else f"{job.desired}*"


def granted(job: JobStatus) -> str:
    """Return the cores a job is granted, those it has lent after a plus."""
    lent = f"+{len(job.lent)}" if job.lent else ""
    return f"{len(job.granted)}{lent}"


def progress(job: JobStatus) -> float | None:
    """Return the share of its steps a job has done, None if it does not say."""
    if job.steps_done is None or not job.steps_total:
        return None
    return min(job.steps_done / job.steps_total, 1.0)


def percent(share: float | None) -> str:
    """Return a share as a percentage, or a dash for what is not known."""
    return "-" if share is None else f"{share:.0%}"


def summed_up(summary: Summary) -> str:
    """Return the metrics of a whole run in a sentence."""
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
