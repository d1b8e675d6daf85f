# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""What each user of a controller may have, and how much the user counts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final


@dataclass(frozen=True)
class Quota:
    """What the jobs of one user may have together. None is no limit.

    Attributes:
        weight: The user's share of the cores relative to other users'; above 0.
        max_jobs: Jobs at once, running or not.
        max_queued: Jobs that wait at once.
        max_running: Jobs that have cores at once.
        max_cores: Cores at once.
    """

    weight: float = 1.0
    max_jobs: int | None = None
    max_queued: int | None = None
    max_running: int | None = None
    max_cores: int | None = None


NO_QUOTA: Final = Quota()


@dataclass(frozen=True)
class Quotas:
    """The quotas of all users.

    Attributes:
        usual: That of users who have none of their own.
        own: By user id.
    """

    usual: Quota = NO_QUOTA
    own: Mapping[int, Quota] = field(default_factory=dict)

    def of(self, user: int | None) -> Quota:
        """Return the quota of a user; None is an unknown user."""
        return self.usual if user is None else self.own.get(user, self.usual)


NO_QUOTAS: Final = Quotas()
