# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Feed: the live jobs as a stream of changes, for any number of readers.

Readers must not slow down a grant. So the jobs are compared with their last published state
four times a second while there are readers, a few jobs at a time, and changes are encoded
once for all readers. The stream of a reader that falls behind is ended.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import AsyncGenerator, Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

import msgspec

from tf_malleable.api.schema.messages import ControllerInfo
from tf_malleable.api.schema.power import PowerStatus
from tf_malleable.controller.requests.callers import Sight
from tf_malleable.controller.requests.encoded_jobs import EncodedJob, EncodedJobs
from tf_malleable.controller.scheduler.reactor import Reactor
from tf_malleable.controller.scheduler.reasons import Reasons

TICK_SECONDS: Final = 0.25
"""Minimum time between two lines."""

SILENT_SECONDS: Final = 1.0
"""Maximum time between two lines, so that readers notice a controller that is gone."""

# Jobs compared before the loop may do other work: a fraction of a millisecond.
_AT_ONCE = 16
# The stream of a reader that is this many lines late is ended.
_KEPT = 8

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class _Tick:
    """Changes found in one comparison, and their encoded line by the readers' sight."""

    serial: int
    at: float
    info: msgspec.Raw | None
    power: msgspec.Raw | None
    jobs: Sequence[EncodedJob]
    gone: Sequence[str]
    ended: int
    whole: bool = False
    lines: dict[Sight, bytes] = field(default_factory=dict)

    def line(self, sight: Sight) -> bytes:
        """Return the changes as a line of JSON, as a caller may see them."""
        line = self.lines.get(sight)
        if line is None:
            said = {
                "serial": self.serial,
                "at": self.at,
                "whole": self.whole,
                "info": self.info,
                "power": self.power,
                "jobs": [each.to(sight) for each in self.jobs],
                "gone": self.gone,
                "ended": self.ended,
            }
            line = self.lines[sight] = msgspec.json.encode(said) + b"\n"
        return line


class Feed:
    """Live jobs as a stream of changes. Not thread-safe: one asyncio loop."""

    def __init__(
        self,
        reactor: Reactor,
        encoded: EncodedJobs,
        info: Callable[[], ControllerInfo],
        power: Callable[[], PowerStatus],
    ) -> None:
        """Create a feed without readers.

        Args:
            reactor: Has the live jobs.
            encoded: The live jobs as JSON.
            info: Returns the state of the controller.
            power: Returns the power status of the host.
        """
        self._reactor = reactor
        self._encoded = encoded
        self._ask_info = info
        self._ask_power = power
        self._readers = 0
        self._looking: asyncio.Task[None] | None = None
        self._closed = False
        self._forget()

    def _forget(self) -> None:
        self._shown: dict[str, EncodedJob] = {}
        self._info = self._power = msgspec.Raw()
        self._ticks: deque[_Tick] = deque(maxlen=_KEPT)
        self._whole: _Tick | None = None
        self._news = asyncio.Event()

    def close(self) -> None:
        """End all streams."""
        self._closed = True
        self._stop_looking()
        self._news.set()

    async def follow(self, sight: Sight) -> AsyncGenerator[bytes, None]:
        """Yield a line with all jobs, then lines of changes, to a caller with this sight.

        The stream ends if the caller is so late that it would miss a change.
        """
        self._readers += 1
        try:
            if self._looking is None and not self._closed:
                self._looking = asyncio.create_task(self._look_for_ever())
            while not self._ticks and not self._closed:
                await self._news.wait()
            if self._closed:
                return
            seen = self._ticks[-1].serial
            yield self._everything().line(sight)
            while not self._closed:
                news = self._news
                for tick in [tick for tick in self._ticks if tick.serial > seen]:
                    if tick.serial != seen + 1:
                        return
                    yield tick.line(sight)
                    seen = tick.serial
                if news is self._news:
                    await news.wait()
        finally:
            self._readers -= 1
            if not self._readers:
                self._stop_looking()
                self._forget()

    def _everything(self) -> _Tick:
        """Return the full state, with the serial number of the newest tick."""
        last = self._ticks[-1]
        if self._whole is None or self._whole.serial != last.serial:
            jobs = list(self._shown.values())
            self._whole = replace(
                last, info=self._info, power=self._power, jobs=jobs, gone=[], whole=True, lines={}
            )
        return self._whole

    def _stop_looking(self) -> None:
        if self._looking is not None:
            self._looking.cancel()
            self._looking = None

    async def _look_for_ever(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            begin = loop.time()
            try:
                await self._look()
            except Exception:
                _log.exception("cannot tell what has changed")
            await asyncio.sleep(max(0.0, begin + TICK_SECONDS - loop.time()))

    async def _look(self) -> None:
        """Compare all jobs with their last published state, and publish the changes."""
        now = self._reactor.now()
        reasons = Reasons(self._reactor, now)
        before = self._info, self._power
        self._info = _raw(self._ask_info())
        self._power = _raw(self._ask_power())
        info, power = map(_if_changed, before, (self._info, self._power))
        changed = [each async for each in self._changed(now, reasons)]
        gone = [job for job in self._shown if job not in self._reactor.roster.live]
        for job in gone:
            del self._shown[job]
        last = self._ticks[-1] if self._ticks else None
        ended = self._reactor.roster.ended
        news = changed or gone or info is not None or power is not None
        quiet = last is not None and not news and ended == last.ended
        if quiet and last is not None and now < last.at + SILENT_SECONDS:
            return
        serial = 1 if last is None else last.serial + 1
        self._ticks.append(_Tick(serial, now, info, power, changed, gone, ended))
        self._news.set()
        self._news = asyncio.Event()

    async def _changed(self, now: float, reasons: Reasons) -> AsyncGenerator[EncodedJob, None]:
        """Yield the jobs that are new or have changed, without blocking the loop for long."""
        for number, (job, live) in enumerate(list(self._reactor.roster.live.items()), 1):
            if number % _AT_ONCE == 0:
                await asyncio.sleep(0)
            if live.over:
                continue
            known, found = self._shown.get(job), self._encoded.of(live, now, reasons)
            if known is None or known.key != found.key:
                self._shown[job] = found
                yield found


def _if_changed(before: msgspec.Raw, after: msgspec.Raw) -> msgspec.Raw | None:
    return after if bytes(after) != bytes(before) else None


def _raw(message: ControllerInfo | PowerStatus) -> msgspec.Raw:
    return msgspec.Raw(msgspec.json.encode(message))
