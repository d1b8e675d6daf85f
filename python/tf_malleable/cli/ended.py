# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Finds jobs that have ended, in the controller's history."""

from __future__ import annotations

from collections.abc import Sequence

from tf_malleable.api.client import Client
from tf_malleable.api.history import History, JobRecord
from tf_malleable.model import OperationError

# Looked through first, as most questions are about recent jobs.
_FEW = 100
_MANY = 10_000


def find_ended(client: Client, job: str) -> JobRecord | None:
    """Return the job of the last 10,000 that ended with this id, or else the last so named.

    Raises:
        OperationError: No controller answers, or it refuses.
    """
    for limit in (_FEW, _MANY):
        jobs = client.get(f"/v1/history?limit={limit}", History).jobs
        by_id = [each for each in jobs if each.id == job]
        by_name = [each for each in jobs if each.name == job]
        found = by_id or sorted(by_name, key=lambda each: each.ended)
        if found or len(jobs) < limit:
            return found[-1] if found else None
    return None


def unended(client: Client, jobs: Sequence[str]) -> tuple[str, ...]:
    """Return the ids of those of these jobs that are live; the others must have ended.

    Args:
        client: Of the controller.
        jobs: Ids or names.

    Raises:
        OperationError: There is no such job, or several live ones have a name.
    """
    live = client.jobs()
    found: list[str] = []
    for job in jobs:
        if any(job in (each.id, each.name) for each in live):
            found.append(client.find(job, live).id)
        elif find_ended(client, job) is None:
            raise OperationError(f"there is no job {job!r}; 'tfm jobs' and 'tfm history' list them")
    return tuple(dict.fromkeys(found))


def last_attempt(client: Client, job: JobRecord) -> JobRecord:
    """Return the last of the attempts at a job with --retries, which have the same output.

    Raises:
        OperationError: No controller answers, or it refuses.
    """
    if job.output is None:
        return job
    for limit in (_FEW, _MANY):
        jobs = client.get(f"/v1/history?limit={limit}", History).jobs
        found = [each for each in jobs if each.output == job.output]
        if found:
            return max(found, key=lambda each: each.ended)
    return job
