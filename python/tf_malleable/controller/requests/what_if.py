# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Foresight: previews of changes, and expected starts of waiting jobs."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Sequence
from dataclasses import replace

from tf_malleable.api.schema.messages import CoreChange, Outlook, Preview
from tf_malleable.api.schema.refusal import Refusal
from tf_malleable.api.schema.requests import PreviewQuery
from tf_malleable.controller.jobs.live_job import LiveJob
from tf_malleable.controller.requests.callers import Caller
from tf_malleable.controller.requests.fair_turns import FairTurns
from tf_malleable.controller.scheduler.reactor import Reactor
from tf_malleable.controller.scheduler.reasons import Reasons
from tf_malleable.linux.processes.users import user_name
from tf_malleable.model import NO_GRANT, Allocation
from tf_malleable.model.schedules.local_time import next_opening
from tf_malleable.policies import registry
from tf_malleable.policies.policy import Policy
from tf_malleable.scheduling.decision.decision import Candidate
from tf_malleable.scheduling.decision.outlook import ExpectedStart, expected_start

# Grants must not wait for outlooks: they are computed one after the other, each takes little
# longer than this of a CPU, and the loop has the rest of the time.
_LOOK_SECONDS = 0.005
_PAUSE_SECONDS = 0.045

_log = logging.getLogger(__name__)


class Foresight:
    """Foresees decisions of one controller. Not thread-safe: one asyncio loop."""

    def __init__(self, reactor: Reactor) -> None:
        self._reactor = reactor
        self._turns = FairTurns()

    def preview(self, live: LiveJob, query: PreviewQuery) -> Preview:
        """Return the jobs whose number of cores would change if a person changed a job.

        Args:
            live: The job.
            query: The change.
        """
        now = self._reactor.now()
        candidates = (
            self._as_if(each, live, query, now) if each.job.id == live.record.id else each
            for each in self._reactor.candidates(now)
        )
        return self._changes([each for each in candidates if each is not None], now)

    def preview_policy(self, spec: str) -> Preview:
        """Return the jobs whose number of cores would change with another policy.

        Raises:
            Refusal: 400; there is no such policy.
        """
        try:
            policy = registry.create(spec)
        except ValueError as error:
            raise Refusal(400, str(error)) from None
        now = self._reactor.now()
        return self._changes(self._reactor.candidates(now), now, policy)

    def _as_if(
        self, candidate: Candidate, live: LiveJob, query: PreviewQuery, now: float
    ) -> Candidate | None:
        """Return a job as it would be after a change; None if it would have ended."""
        if query.change == "cancel":
            return None
        if query.change == "pause":
            return candidate._replace(barred=True)
        if query.change == "resume":
            roster = self._reactor.roster
            blocked = live.record.id in roster.held_back() or bool(roster.before(live))
            return candidate._replace(barred=blocked or live.is_out_of_reach(now))
        if query.change == "priority":
            return candidate._replace(job=replace(candidate.job, priority=query.priority))
        return candidate._replace(by_hand=query.cores or None)

    def _changes(
        self, candidates: Sequence[Candidate], now: float, policy: Policy | None = None
    ) -> Preview:
        allocation = self._foresee(candidates, now, policy)
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

    async def outlook(self, live: LiveJob, caller: Caller) -> Outlook:
        """Return why a job has no cores, and when it is expected to have some.

        Args:
            live: The job.
            caller: Process that asks.
        """
        await self._turns.acquire(caller.account)
        try:
            now = self._reactor.now()
            reason, can_start = Reasons(self._reactor, now).explain(live)
            if not can_start:
                return Outlook(reason, self._opening(live))
            start = self._start(live, now)
            await asyncio.sleep(_PAUSE_SECONDS)
        finally:
            self._turns.release()
        return Outlook(reason, start.at, start.guessed)

    def _opening(self, live: LiveJob) -> float | None:
        """Return when the time window of a job that waits for it opens; None if it does not."""
        record = live.record
        if not live.outside or record.window is None or record.held or record.cancelled:
            return None
        return next_opening(record.window, self._reactor.wall())

    def _start(self, live: LiveJob, now: float) -> ExpectedStart:
        until = time.thread_time() + _LOOK_SECONDS
        try:
            return expected_start(
                self._reactor.foresee,
                self._reactor.candidates(now),
                live.record.id,
                now,
                may_go_on=lambda: time.thread_time() < until,
            )
        except Exception:
            _log.debug("cannot foresee the policy's decisions", exc_info=True)
            return ExpectedStart(None, False)

    def _foresee(
        self, candidates: Sequence[Candidate], now: float, policy: Policy | None
    ) -> Allocation | None:
        """Return the allocation that would be decided; None if the policy fails."""
        try:
            return self._reactor.foresee(candidates, now, policy)
        except Exception:
            _log.debug("cannot foresee the policy's decision", exc_info=True)
            return None
