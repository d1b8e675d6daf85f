# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Answers what would happen: who would lose cores, and when a job will have some."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Sequence

from tf_malleable.api.messages import CoreChange, Outlook, Preview
from tf_malleable.controller.jobs.live import LiveJob
from tf_malleable.controller.jobs.reactor import Reactor
from tf_malleable.controller.jobs.views import why_not
from tf_malleable.linux.users import user_name
from tf_malleable.model import NO_GRANT, Allocation
from tf_malleable.model.units import cores as cores_of
from tf_malleable.scheduling.decision import Candidate
from tf_malleable.scheduling.outlook import ExpectedStart, expected_start

# Grants must not wait for people's curiosity: one outlook after the other, each takes
# little longer than this, and the loop has the rest of the time.
_LOOK_SECONDS = 0.005
_PAUSE_SECONDS = 0.045

_log = logging.getLogger(__name__)


class Foresight:
    """Foresees decisions of one controller. Not thread-safe: one asyncio loop."""

    def __init__(self, reactor: Reactor) -> None:
        self._reactor = reactor
        self._turn = asyncio.Semaphore(1)

    def preview(self, live: LiveJob, cores: int | None) -> Preview:
        """Return whose cores would change if a job's cores were set by hand.

        Args:
            live: The job.
            cores: Its cores; None returns it to the policy.
        """
        now = self._reactor.now()
        allocation = self._foresee(
            [
                each._replace(by_hand=cores) if each.job.id == live.record.id else each
                for each in self._reactor.candidates(now)
            ],
            now,
        )
        if allocation is None:
            return Preview([])
        found = []
        for each in self._reactor.roster.live.values():
            record = each.record
            before = len(record.grant.own)
            after = len(allocation.grants.get(record.id, NO_GRANT).own)
            if before != after:
                user = user_name(record.uid)
                found.append(CoreChange(record.id, record.name, user, before, after))
        return Preview(found)

    async def outlook(self, live: LiveJob) -> Outlook:
        """Return why a job has no cores, and when it is expected to have some."""
        async with self._turn:
            now = self._reactor.now()
            reason, can_start = self._reason(live, now)
            if not can_start:
                return Outlook(reason)
            start = self._start(live, now)
            await asyncio.sleep(_PAUSE_SECONDS)
        return Outlook(reason, start.at, start.guessed)

    def _reason(self, live: LiveJob, now: float) -> tuple[str | None, bool]:
        """Return why a job has no cores, and whether it could have some without a person."""
        record = live.record
        if record.cancelled:
            return "it was cancelled and is about to end", False
        if record.held:
            return f"it is paused; resume it with: tfm resume {record.id}", False
        if live.stopped:
            return "its processes were stopped by a signal", False
        if record.grant:
            return None, False
        if live.is_absent(now):
            return "the process that asked for cores no longer waits for them", False
        if before := self._reactor.roster.before(live):
            jobs = ", ".join(f"{each.record.id} ({each.record.name})" for each in before)
            return f"it starts after the end of job {jobs}", False
        if record.id in self._reactor.roster.held_back():
            return f"no more than {record.at_once} of the jobs of its array run at once", False
        if live.lack is not None:
            return why_not(live), True
        others = [each for each in self._reactor.roster.live.values() if each is not live]
        total = len(self._reactor.machine.cpus)
        free = total - sum(len(each.record.grant.own) for each in others)
        ahead = sum(
            not each.record.grant
            and not each.record.held
            and each.record.submitted < record.submitted
            for each in others
        )
        waits = "1 job that waits" if ahead == 1 else f"{ahead} jobs that wait"
        queue = f", and {waits} arrived before it" if ahead else ""
        return (
            f"it needs {cores_of(record.shape.min)}, {max(0, free)} of {total} are free{queue}",
            True,
        )

    def _start(self, live: LiveJob, now: float) -> ExpectedStart:
        until = time.monotonic() + _LOOK_SECONDS
        try:
            return expected_start(
                self._reactor.foresee,
                self._reactor.candidates(now),
                live.record.id,
                now,
                may_go_on=lambda: time.monotonic() < until,
            )
        except Exception:
            _log.debug("cannot foresee the policy's decisions", exc_info=True)
            return ExpectedStart(None, False)

    def _foresee(self, candidates: Sequence[Candidate], now: float) -> Allocation | None:
        """Return what would be decided; None if the policy fails."""
        try:
            return self._reactor.foresee(candidates, now)
        except Exception:
            _log.debug("cannot foresee the policy's decision", exc_info=True)
            return None
