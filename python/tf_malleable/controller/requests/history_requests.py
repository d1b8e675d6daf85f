# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""History requests, answered without blocking the loop for a long history."""

from __future__ import annotations

import asyncio
import sys

import msgspec

from tf_malleable.api.schema.history import History
from tf_malleable.api.schema.refusal import Refusal
from tf_malleable.controller.requests.callers import Caller, Sight
from tf_malleable.controller.requests.fair_turns import FairTurns
from tf_malleable.controller.scheduler.reactor import Reactor
from tf_malleable.controller.state.history_reader import encoded_history
from tf_malleable.controller.state.store import Store, StoreError
from tf_malleable.scheduling.records import metrics, time_accounts

# A thread that reads a history is always busy, so the loop waits for this long after nearly every
# system call.
_SWITCH_SECONDS = 0.0001


class Histories:
    """History of one controller. Not thread-safe: one asyncio loop."""

    def __init__(self, reactor: Reactor, store: Store) -> None:
        self._reactor = reactor
        self._store = store
        # One at a time, as each takes memory and shares Python with the loop.
        self._turns = FairTurns()

    def history(self, limit: int, spans: bool, since: float = 0.0) -> History:
        """Return the jobs that ended last, and optionally spans, including live jobs'.

        Args:
            limit: Maximum number of jobs.
            spans: Whether to include spans.
            since: Unix time; jobs and spans that ended then or before are left out.

        Raises:
            Refusal: 503; the state file cannot be read.
        """
        try:
            records, stretches = self._store.history(limit, spans=spans)
        except StoreError as error:
            raise Refusal(503, str(error)) from None
        records = [record for record in records if record.ended > since]
        stretches = [span for span in stretches if span.end > since]
        now = self._reactor.now()
        current = [
            time_accounts.span(each.record, now) for each in self._reactor.roster.live.values()
        ]
        return History(
            records,
            [*stretches, *current] if spans else [],
            metrics.summary(records, len(self._reactor.machine.cpus)),
        )

    async def encoded(
        self, caller: Caller, limit: int, spans: bool, since: float = 0.0
    ) -> list[bytes]:
        """Return history() as JSON in pieces, as a caller may see it, without blocking the loop.

        Raises: as history().
        """
        sight = caller.sight
        self._reactor.save()
        if self._store.problem is None:
            await self._turns.acquire(caller.account)
            reading = asyncio.ensure_future(self._read(sight, limit, spans, since))
            reading.add_done_callback(self._read_one)
            # The thread continues if the client hangs up, so the turn stays taken.
            return await asyncio.shield(reading)
        # Changes that could not be written are only in memory.
        found = self.history(limit, spans, since)
        shown = History([*map(sight.of_ended, found.jobs)], found.spans, found.summary)
        return [msgspec.json.encode(shown)]

    def _read_one(self, reading: asyncio.Future[list[bytes]]) -> None:
        self._turns.release()
        if not reading.cancelled():
            reading.exception()  # Otherwise asyncio would log it if the client has hung up.

    async def _read(self, sight: Sight, limit: int, spans: bool, since: float) -> list[bytes]:
        now = self._reactor.now()
        live = [each.record for each in self._reactor.roster.live.values()]
        usual = sys.getswitchinterval()
        sys.setswitchinterval(_SWITCH_SECONDS)
        try:
            return await asyncio.to_thread(
                encoded_history,
                self._store.path,
                limit,
                [record.id for record in live],
                [time_accounts.span(record, now) for record in live] if spans else None,
                len(self._reactor.machine.cpus),
                sight.of_ended,
                since,
            )
        except StoreError as error:
            raise Refusal(503, str(error)) from None
        finally:
            sys.setswitchinterval(usual)
