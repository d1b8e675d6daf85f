# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Callers: identification of the process that sends a request, and its permissions.

Root on the host may do everything. Root in a container, which the kernel reports as root,
may not: a caller in a container may act only on the job of that container.
"""

from __future__ import annotations

import os
from dataclasses import dataclass

import msgspec

from tf_malleable.api.schema.history import JobRecord
from tf_malleable.api.schema.messages import JobStatus
from tf_malleable.api.schema.refusal import Refusal
from tf_malleable.controller.jobs.live_job import LiveJob
from tf_malleable.controller.scheduler.job_table import Roster
from tf_malleable.linux.cgroups.confinement import confinement_of
from tf_malleable.linux.processes import procfs
from tf_malleable.linux.processes.peer_credentials import Peer
from tf_malleable.linux.processes.subordinate_uids import account_of
from tf_malleable.linux.processes.users import user_name


@dataclass(frozen=True)
class Caller:
    """The process that sends a request.

    Attributes:
        uid: User id of the process.
        pid: Pid of the process.
        within: Job that the process belongs to, whatever its owner; None if there is none.
        confined: True if the process is in a container, or in a PID namespace of its own.
    """

    uid: int
    pid: int
    within: LiveJob | None
    confined: bool

    @property
    def is_root(self) -> bool:
        """Whether the caller is root on the host."""
        return self.uid == 0 and not self.confined

    @property
    def is_administrator(self) -> bool:
        """Whether the caller is root or the controller's user on the host."""
        return self.uid in (0, os.getuid()) and not self.confined

    @property
    def job(self) -> LiveJob | None:
        """The job that the caller may act for; None if there is none."""
        live = self.within
        if live is None:
            return None
        # A container's processes belong to its job, whatever user they run as.
        inside = live.container is not None
        return live if inside or self.is_root or self.uid == live.record.uid else None

    def check_may_change(self, live: LiveJob) -> None:
        """Raise Refusal unless the caller may change this job."""
        if self.confined:
            if self.job is live:
                return
            raise Refusal(403, self._only_its_own)
        if self.uid not in (0, live.record.uid):
            raise Refusal(403, f"job {live.record.id} belongs to another user")

    def check_unconfined(self) -> None:
        """Raise Refusal if the caller is in a container or a PID namespace of its own."""
        if self.confined:
            raise Refusal(403, self._only_its_own)

    @property
    def _only_its_own(self) -> str:
        if self.within is None:
            return "processes in a container may access only the job that they belong to"
        return f"processes in job {self.within.record.id} may access only that job"

    @property
    def account(self) -> tuple[int, str | None]:
        """Whose requests count together: a user's, and apart from these those of each container."""
        inside = None if self.within is None else self.within.record.id
        return account_of(self.uid), inside if self.confined else None

    @property
    def sight(self) -> Sight:
        """Filter for what the caller may see."""
        own = None if self.job is None else self.job.record.id
        return Sight(self.is_administrator, None if self.confined else user_name(self.uid), own)


@dataclass(frozen=True)
class Sight:
    """Filter for what a caller may see: all of its own jobs, and of others what a queue needs.

    Attributes:
        everything: True if the caller may see everything of all jobs.
        user: User whose jobs the caller may see in full; None for no user.
        job: Id of a job that the caller may see in full; None for no job.
    """

    everything: bool
    user: str | None
    job: str | None

    def of(self, status: JobStatus) -> JobStatus:
        """Return a live job as the caller may see it.

        Others see no command, path, image, id and processes.
        """
        if self._is_own(status):
            return status
        container = status.container
        hidden = None if container is None else msgspec.structs.replace(container, id="", image="")
        return msgspec.structs.replace(status, command=[], output=None, container=hidden, pools=[])

    def of_ended(self, record: JobRecord) -> JobRecord:
        """Return an ended job as the caller may see it: for others neither command nor path."""
        if self._is_own(record):
            return record
        return msgspec.structs.replace(record, command=[], output=None, killed_commands=[])

    def _is_own(self, job: JobStatus | JobRecord) -> bool:
        return self.everything or job.user == self.user or job.id == self.job


class Callers:
    """Identification of callers."""

    def __init__(self, roster: Roster) -> None:
        self._roster = roster

    def identify(self, peer: Peer) -> Caller:
        """Return the caller that the kernel reports.

        Raises:
            Refusal: 403; the process has ended, or is not visible from here.
        """
        within = self._roster.job_of(peer.pid)
        confinement = confinement_of(peer.pid)
        # Last: a process that ends meanwhile would appear to be in no container.
        stat = procfs.read_stat(peer.pid)
        if confinement is None or stat is None or stat.state in "ZX":
            raise Refusal(403, "cannot see the calling process: is it in another PID namespace?")
        inside = within is not None and within.container is not None
        return Caller(peer.uid, peer.pid, within, inside or bool(confinement))
