# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Arrivals: makes processes of the host jobs."""

from __future__ import annotations

import asyncio
import os

from tf_malleable.api.schema.job_request import JobRequest
from tf_malleable.api.schema.messages import JobStatus
from tf_malleable.api.schema.refusal import Refusal
from tf_malleable.api.schema.requests import Submission
from tf_malleable.controller.jobs.job_views import job_status, why_not
from tf_malleable.controller.jobs.live_job import LiveJob
from tf_malleable.controller.requests.callers import Callers
from tf_malleable.controller.scheduler.admission import Admission
from tf_malleable.controller.scheduler.reactor import Reactor
from tf_malleable.controller.state.store import Store, StoreError
from tf_malleable.linux.cgroups.job_cgroup import JobGroup
from tf_malleable.linux.processes import pidfds, procfs
from tf_malleable.linux.processes.peer_credentials import Peer
from tf_malleable.model.units import quoted


class Arrivals:
    """Makes processes jobs. Not thread-safe: one asyncio loop."""

    def __init__(
        self, reactor: Reactor, callers: Callers, admission: Admission, store: Store
    ) -> None:
        """Create the object.

        Args:
            reactor: Makes the decisions about the jobs.
            callers: Identifies the job of a process.
            admission: Checks the requests.
            store: Keeps the records.
        """
        self._reactor = reactor
        self._roster = reactor.roster
        self._callers = callers
        self._admission = admission
        self._store = store

    async def prepare(self, peer: Peer, submission: Submission) -> JobGroup | None:
        """Move a process that is about to become a job into the cgroup of that job.

        The kernel takes milliseconds for this, and tens of milliseconds while other processes
        fork, as systemd does. If the process does not become a job, the cgroup is removed once it
        is empty.

        Returns:
            The cgroup; None if the process already belongs to a job, or none can be made.
        """
        if self._callers.identify(peer).job is not None:
            return None
        self._check(peer, submission)
        process = procfs.identify(peer.pid)
        group = None
        if process is not None:
            group = await asyncio.to_thread(self._roster.prepare_group, process)
            if group is not None:
                self._roster.remove_unless_job(process, group)
        return group

    def submit(
        self, peer: Peer, submission: Submission, group: JobGroup | None = None
    ) -> tuple[JobStatus, bool]:
        """Make the calling process a job, or find the job it belongs to; see Service.

        Args:
            peer: The calling process.
            submission: Submission of the process.
            group: Cgroup returned by prepare(); None for none.
        """
        now = self._reactor.now()
        known = self._callers.identify(peer).job
        if known is not None:
            if known.is_absent(now):
                self._reactor.react_soon()
            known.expect(now)
            return job_status(known, now, peer.pid), False
        live = self._new(peer, submission, now, group)
        if (unmet := self._roster.unmet(live.record)) is not None:
            # The process itself ends once it has said so: it may have to report its id first.
            self._roster.note_unmet(live, unmet)
        self._reactor.react()
        if not submission.queue and live.record.state == "waiting":
            reason = why_not(live, self._roster.before(live))
            self._roster.refuse(live)
            raise Refusal(409, f"{reason} and must not queue")
        self._store.save(live.record)
        # Save at once: a program must not conclude that it runs alone although it is a job.
        self._reactor.save()
        return job_status(live, self._reactor.now(), peer.pid), True

    def _new(
        self, peer: Peer, submission: Submission, now: float, group: JobGroup | None
    ) -> LiveJob:
        request = self._check(peer, submission)
        process = procfs.identify(peer.pid)
        if process is None:
            raise Refusal(403, "cannot see the calling process: is it in another PID namespace?")
        try:
            pidfd = pidfds.open_pidfd(process)
        except OSError as error:
            raise Refusal(503, f"cannot accept more jobs: {error.strerror}") from None
        if pidfd is None:
            raise Refusal(409, "the calling process has ended")
        try:
            record = self._admission.record(
                request, peer.uid, now, process, running=submission.running
            )
        except Refusal:
            os.close(pidfd)
            raise
        live = self._roster.add(record, pidfd, group=group)
        live.expect(now)
        return live

    def _check(self, peer: Peer, submission: Submission) -> JobRequest:
        try:
            request = submission.request
        except ValueError as error:
            raise Refusal(400, str(error)) from None
        self._admission.check_new(request, peer.pid, peer.uid, running=submission.running)
        try:
            unknown = [job for job in request.after_ok if not self._roster.is_known(job)]
        except StoreError as error:
            raise Refusal(503, f"cannot find out how other jobs ended: {error}") from None
        if unknown:
            raise Refusal(409, f"there is no job {quoted(unknown[0])} to start after")
        return request
