# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Quotas and weights of a controller's users."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final


@dataclass(frozen=True)
class Quota:
    """Limits for all jobs of one user together; None for no limit.

    Attributes:
        weight: Share of the cores relative to other users' weights; above 0.
        max_jobs: Limit of jobs at a time, running or not.
        max_queued: Limit of waiting jobs at a time.
        max_running: Limit of jobs with cores at a time.
        max_cores: Limit of cores at a time.
        max_mem: Limit of memory at a time, in bytes.
        max_gpus: Limit of GPUs at a time.
    """

    weight: float = 1.0
    max_jobs: int | None = None
    max_queued: int | None = None
    max_running: int | None = None
    max_cores: int | None = None
    max_mem: int | None = None
    max_gpus: int | None = None


NO_QUOTA: Final = Quota()


@dataclass(frozen=True)
class Quotas:
    """The quotas of all users.

    Attributes:
        usual: Quota of users without one of their own.
        own: Quotas of single users, by user id.
    """

    usual: Quota = NO_QUOTA
    own: Mapping[int, Quota] = field(default_factory=dict)

    def of(self, user: int | None) -> Quota:
        """Return the quota of a user; None for an unknown user."""
        return self.usual if user is None else self.own.get(user, self.usual)


NO_QUOTAS: Final = Quotas()
