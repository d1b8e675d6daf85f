# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Lookup of ended jobs in the controller's history."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from tf_malleable.api.schema.history import History, JobRecord
from tf_malleable.api.schema.job_names import array_base
from tf_malleable.api.schema.messages import JobStatus
from tf_malleable.api.transport.client import Client
from tf_malleable.controller.state.exit_file import read_exit
from tf_malleable.linux.processes.users import user_name
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


def no_such_job(job: str, *, several: bool = False) -> OperationError:
    """Return the error for an id or name that no live or ended job has.

    Args:
        job: What was taken for an id or a name.
        several: Whether the command takes several jobs, and --all.
    """
    hint = (
        "use --all for all live jobs"
        if several and job == "all"
        else "'tfm jobs' and 'tfm history' list them"
    )
    return OperationError(f"there is no job {job!r}; {hint}")


def unended(client: Client, jobs: Sequence[str], *, or_failed: bool = False) -> tuple[str, ...]:
    """Return the ids of those of these jobs that are live, maybe as another job by now.

    The others must have ended.

    Args:
        client: Client of the controller.
        jobs: Ids or names of the jobs; the name of an array is for all of its jobs.
        or_failed: Whether to return those, too, that have ended, but not succeeded. Of a job with
            --retries, the last attempt counts.

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
            if or_failed:
                found += _not_succeeded(client, last_array(client, job, live), live)
        elif ended := find_ended(client, job):
            found += _not_succeeded(client, [ended.id], live) if or_failed else _again(ended, live)
        elif array := last_array(client, job, live):
            found += _not_succeeded(client, array, live) if or_failed else ()
        else:
            raise no_such_job(job)
    return tuple(dict.fromkeys(found))


def _not_succeeded(client: Client, jobs: Sequence[str], live: Sequence[JobStatus]) -> list[str]:
    """Return the ids of the jobs that have not succeeded, each as its last attempt so far."""
    found = []
    for job in jobs:
        if (record := find_ended(client, job)) is None:
            continue  # It is live.
        last = last_attempt(client, record)
        found += _again(record, live) or ([] if _has_succeeded(last) else [last.id])
    return found


def _again(ended: JobRecord, live: Sequence[JobStatus]) -> list[str]:
    """Return the id of the live job that is an ended one again, in a list; none if there is none.

    It is its next attempt, or was submitted again after a reboot.
    """
    return [each.id for each in live if each.output == ended.output is not None]


def _has_succeeded(job: JobRecord) -> bool:
    if job.outcome == "unknown" and job.output is not None:
        recorded = read_exit(Path(job.output), job.user, job.id, job.submitted)
        return recorded is not None and recorded.code == 0
    return job.outcome == "finished"


def ended_of_group(client: Client, group: str) -> list[JobRecord]:
    """Return the ended jobs of a group of the calling user, in order of arrival.

    Only the last 10,000 ended jobs are searched.

    Raises:
        OperationError: No controller answers, or the controller refuses.
    """
    user = user_name(os.getuid())
    jobs = client.get(f"/v1/history?limit={_MANY}", History).jobs
    return [each for each in jobs if (each.group, each.user) == (group, user)]


def no_such_group(group: str) -> OperationError:
    """Return the error for a group without jobs."""
    return OperationError(f"no job of yours is in a group {group!r}; tfm show names a job's group")


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
