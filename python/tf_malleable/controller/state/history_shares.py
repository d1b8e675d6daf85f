# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Each user's share of the history, and what is deleted if the history becomes too large.

The user who has most of it loses the oldest jobs first. So no user can fill the disk, nor displace
the jobs of others.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Final

from tf_malleable.api.schema.history import JobRecord
from tf_malleable.controller.state.history_file import encode
from tf_malleable.controller.state.schema import (
    BYTES_OF_JOB,
    MOST_SPANS,
    SPAN_BYTES,
    USER_OF_JOB,
)
from tf_malleable.controller.state.state_file import StateFile

# Jobs of one user that are deleted in one transaction, so that it does not block the controller.
_AT_ONCE: Final = 1000

_TOTALS = f"SELECT {USER_OF_JOB}, count(*), sum({BYTES_OF_JOB}) FROM jobs GROUP BY 1"
_OLDEST = (
    f"SELECT id, ended, {BYTES_OF_JOB} FROM jobs WHERE {USER_OF_JOB} IS ? ORDER BY ended LIMIT ?"
)

_User = str | None


@dataclass(frozen=True)
class _Share:
    """What the history has of one user."""

    jobs: int = 0
    bytes: int = 0

    def plus(self, jobs: int, size: int) -> _Share:
        """Return the share after a change of its number of jobs and bytes."""
        return replace(self, jobs=self.jobs + jobs, bytes=self.bytes + size)


class HistoryShares:
    """The users' shares of the history in a state file."""

    def __init__(self, file: StateFile, most_jobs: int, most_bytes: int) -> None:
        """Count what is in the file.

        Args:
            file: The state file.
            most_jobs: Maximum number of jobs of all users.
            most_bytes: Maximum size of the jobs and spans of all users, approximately.

        Raises:
            StoreError: The file cannot be read.
        """
        self._file = file
        self._most_jobs = most_jobs
        self._most_bytes = most_bytes
        rows = file.rows(_TOTALS)
        self._shares = {user: _Share(jobs, int(size)) for user, jobs, size in rows}
        self._next = self._shares

    def surplus(self, new: Iterable[JobRecord]) -> list[str]:
        """Return the ids of the jobs to delete when these are added.

        Raises:
            StoreError: The file cannot be read.
        """
        shares, added = dict(self._shares), _by_user(new)
        for user, jobs in added.items():
            size = sum(size for _, _, size in jobs)
            shares[user] = shares.get(user, _Share()).plus(len(jobs), size)
        number = sum(share.jobs for share in shares.values())
        total = sum(share.bytes for share in shares.values())
        oldest: dict[_User, deque[tuple[float, str, int]]] = {}
        found = []
        while number > self._most_jobs or total > self._most_bytes:
            user = max(shares, key=lambda user: shares[user].bytes)
            if user not in oldest:
                oldest[user] = self._oldest(user, added.get(user, []))
            if not oldest[user]:
                break  # The next write goes on.
            _, job, size = oldest[user].popleft()
            shares[user] = shares[user].plus(-1, -size)
            number, total = number - 1, total - size
            found.append(job)
        self._next = {user: share for user, share in shares.items() if share.jobs}
        return found

    def written(self) -> None:
        """Record that the file was written as surplus() last assumed."""
        self._shares = self._next

    def _oldest(
        self, user: _User, added: list[tuple[float, str, int]]
    ) -> deque[tuple[float, str, int]]:
        rows = self._file.rows(_OLDEST, (user, _AT_ONCE))
        stored = [(ended, job, int(size)) for job, ended, size in rows]
        return deque(sorted([*stored, *added])[:_AT_ONCE])


def _by_user(jobs: Iterable[JobRecord]) -> Mapping[_User, list[tuple[float, str, int]]]:
    """Return end, id and size of jobs by user."""
    found: dict[_User, list[tuple[float, str, int]]] = {}
    for job in jobs:
        size = len(encode(job).encode()) + SPAN_BYTES * min(MOST_SPANS, job.grants)
        found.setdefault(job.account or job.user, []).append((job.ended, job.id, size))
    return found
