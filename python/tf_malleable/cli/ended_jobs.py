# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Lookup of ended jobs in the controller's history."""

from __future__ import annotations

from collections.abc import Sequence

from tf_malleable.api.schema.history import History, JobRecord
from tf_malleable.api.schema.job_names import array_base
from tf_malleable.api.schema.messages import JobStatus
from tf_malleable.api.transport.client import Client
from tf_malleable.model import OperationError

# Number of jobs searched first, as most requests are about recent jobs; and maximum number.
_FEW = 100
_MANY = 10_000


def find_ended(client: Client, job: str) -> JobRecord | None:
    """Return the ended job with this id, or else the last one with this name; None if unknown.

    Only the last 10,000 ended jobs are searched.

    Raises:
        OperationError: No controller answers, or the controller refuses.
    """
    for limit in (_FEW, _MANY):
        jobs = client.get(f"/v1/history?limit={limit}", History).jobs
        by_id = [each for each in jobs if each.id == job]
        by_name = [each for each in jobs if each.name == job]
        found = by_id or sorted(by_name, key=lambda each: each.ended)
        if found or len(jobs) < limit:
            return found[-1] if found else None
    return None


def last_array(client: Client, base: str, live: Sequence[JobStatus]) -> list[str]:
    """Return the ids of all jobs, live or ended, of the array that was submitted last as `base`.

    They are in order of arrival; of a job with --retries, it is the last attempt so far. The
    list is empty if there is no such array.

    Raises:
        OperationError: No controller answers, or the controller refuses.
    """
    if any(base in (each.id, each.name) for each in live):
        return []
    ended = client.get(f"/v1/history?limit={_MANY}", History).jobs
    known: list[JobStatus | JobRecord] = [*live, *ended]
    members = [each for each in known if each.array is not None and array_base(each.name) == base]
    members.sort(key=lambda job: job.submitted)
    # Later attempts have the same name.
    chosen = {
        each.name: each.id
        for each in members
        if (each.user, each.array) == (members[-1].user, members[-1].array)
    }
    return list(chosen.values())


def no_such_job(job: str) -> OperationError:
    """Return the error for an id or name that no live or ended job has."""
    return OperationError(f"there is no job {job!r}; 'tfm jobs' and 'tfm history' list them")


def unended(client: Client, jobs: Sequence[str]) -> tuple[str, ...]:
    """Return the ids of those of these jobs that are live; the others must have ended.

    Args:
        client: Client of the controller.
        jobs: Ids or names of the jobs; the name of an array is for all of its jobs.

    Raises:
        OperationError: One of the jobs does not exist, or several live jobs have the same name.
    """
    live = client.jobs()
    found: list[str] = []
    for job in jobs:
        if any(job in (each.id, each.name) for each in live):
            found.append(client.find(job, live).id)
        elif array := [each.id for each in live if array_base(each.name) == job]:
            found += array
        elif find_ended(client, job) is None and not last_array(client, job, live):
            raise no_such_job(job)
    return tuple(dict.fromkeys(found))


def last_attempt(client: Client, job: JobRecord) -> JobRecord:
    """Return the last attempt of a job with --retries; all attempts have the same output file.

    Raises:
        OperationError: No controller answers, or the controller refuses.
    """
    if job.output is None:
        return job
    for limit in (_FEW, _MANY):
        jobs = client.get(f"/v1/history?limit={limit}", History).jobs
        found = [each for each in jobs if each.output == job.output]
        if found:
            return max(found, key=lambda each: each.ended)
    return job
