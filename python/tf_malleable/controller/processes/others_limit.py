# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Limit of processes that are no jobs: login users get some CPUs, and the controller the rest."""

from __future__ import annotations

import logging
import os
import re

from tf_malleable.controller.state.store import Store
from tf_malleable.linux.cgroups import slice_limit
from tf_malleable.linux.cgroups.slice_limit import SliceLimit
from tf_malleable.linux.processes import procfs
from tf_malleable.model import Cpuset, ProcessId
from tf_malleable.model.units import quoted

_LIMIT = "slice limit"
_TEXT = re.compile(r"others=([0-9]{1,5})", re.ASCII)

_log = logging.getLogger(__name__)


def parse_slice(text: str) -> int:
    """Return the number of CPUs for login users that --slice says.

    Raises:
        ValueError: The text is not ``others=N``.
    """
    found = _TEXT.fullmatch(text)
    if found is None or int(found[1]) < 1:
        raise ValueError(
            f"--slice must be others=N, with the number of CPUs that login users may use,"
            f" not {quoted(text)}"
        )
    return int(found[1])


class OthersLimit:
    """A limit of login users in force, until close().

    Attributes:
        cpus: CPUs that are left for jobs.
    """

    def __init__(
        self, others: int, wanted: Cpuset | None, store: Store, root: str | None = None
    ) -> None:
        """Limit them. A limit that a killed controller has left must have been lifted.

        Args:
            others: Number of CPUs that they may use.
            wanted: CPUs to share out between jobs and them; None for all.
            store: Remembers what to undo.
            root: Path below the cgroups' mount points at which user.slice is; None for none.

        Raises:
            ValueError: No CPU would be left for jobs.
            SliceError: They cannot be limited.
        """
        shared = sorted(os.sched_getaffinity(0) if wanted is None else wanted)
        if others >= len(shared):
            raise ValueError(
                f"--slice others={others} leaves no CPU for jobs: there are {len(shared)}"
            )
        self.cpus = frozenset(shared[:-others])
        self._store = store
        self._limit: SliceLimit = slice_limit.login_users_limit(
            frozenset(shared[-others:]), root or ""
        )
        # First, so that the limit never outlives the knowledge of what to undo.
        store.set_setting(_LIMIT, self._limit.saved())
        store.flush()
        try:
            self._limit.apply()
        except slice_limit.SliceError:
            store.set_setting(_LIMIT, "")
            raise
        me = procfs.identify(os.getpid())
        if me is not None:
            self.exempt(me)

    def exempt(self, process: ProcessId) -> None:
        """Let a job's processes use more, as a login user may have started them."""
        self._limit.exempt(process)

    def close(self) -> None:
        """Lift the limit."""
        lift_left_over(self._store)


def lift_left_over(store: Store) -> None:
    """Lift the limit that this or a killed controller has left, if there is one."""
    if saved := store.setting(_LIMIT):
        if problem := slice_limit.lift(saved):
            _log.warning("%s", problem)
        store.set_setting(_LIMIT, "")
