# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Relay of the controller's stream of changes to all viewers, with the last half hour.

The controller has one reader, however many viewers there are. A line is passed on unchanged; a
new viewer gets everything that is known. While no controller answers, viewers are told so, and
the time is recorded as a gap, as its events are unknown.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final

import aiohttp
import msgspec

from tf_malleable.web.series import Sample, Series

# The controller sends a message each second, if only that nothing has changed.
_SILENT_SECONDS: Final = 5.0
_PAUSE_SECONDS: Final = 0.5
_LONGEST_LINE: Final = 64 << 20
# A viewer with this many unsent messages, a few seconds, is dropped.
_MOST_LATE: Final = 64
_KEPT_GAPS: Final = 100

_NULL: Final = b"null"

_log = logging.getLogger(__name__)


class _Line(msgspec.Struct):
    """A line of the controller, whose jobs are passed on unchanged."""

    at: float
    whole: bool
    info: msgspec.Raw
    power: msgspec.Raw
    jobs: list[msgspec.Raw]
    gone: list[str]
    ended: int


class _Named(msgspec.Struct):
    id: str


@dataclass(eq=False)
class Viewer:
    """A viewer of the page.

    Attributes:
        waiting: Messages to be sent; None once the viewer is dropped.
    """

    waiting: asyncio.Queue[str | None] = field(
        default_factory=lambda: asyncio.Queue(_MOST_LATE + 1)
    )

    def tell(self, message: str) -> bool:
        """Send a message; return whether there was room for it."""
        if self.waiting.qsize() >= _MOST_LATE:
            while not self.waiting.empty():
                self.waiting.get_nowait()
            self.waiting.put_nowait(None)
            return False
        self.waiting.put_nowait(message)
        return True


class Relay:
    """One reader of the controller for any number of viewers. Not thread-safe: one loop."""

    def __init__(self, session: aiohttp.ClientSession, place: str) -> None:
        """Create a relay without data.

        Args:
            session: HTTP session connected to the controller.
            place: Path of the controller's socket, for messages.
        """
        self._session = session
        self._place = place
        self._viewers: set[Viewer] = set()
        self._info = self._power = msgspec.Raw(_NULL)
        self._jobs: dict[str, msgspec.Raw] = {}
        self._at, self._ended = 0.0, 0
        self._down: str | None = f"not connected to the controller at {place} yet"
        self._down_since: float | None = None
        self._gaps: deque[tuple[float, float]] = deque(maxlen=_KEPT_GAPS)
        self._series = Series()

    def open(self) -> Viewer:
        """Return a new viewer with everything known so far in its queue."""
        viewer = Viewer()
        for message in self._greeting():
            viewer.tell(message)
        self._viewers.add(viewer)
        return viewer

    def close(self, viewer: Viewer) -> None:
        """Forget a viewer."""
        self._viewers.discard(viewer)

    def _greeting(self) -> Iterator[str]:
        yield _text({"series": self._series.columns(), "gaps": list(self._gaps)})
        if self._at:
            jobs = list(self._jobs.values())
            known = {"at": self._at, "whole": True, "info": self._info, "power": self._power}
            yield _text({**known, "jobs": jobs, "gone": [], "ended": self._ended})
        if self._down is not None:
            yield _text({"down": self._down, "since": self._down_since})

    def _broadcast(self, message: str) -> None:
        for viewer in tuple(self._viewers):
            if not viewer.tell(message):
                self._viewers.discard(viewer)

    async def run(self) -> None:
        """Read the stream until cancelled."""
        while True:
            try:
                await self._follow()
                problem = f"the controller at {self._place} has ended the stream"
            except asyncio.TimeoutError:
                problem = f"the controller at {self._place} says nothing"
            except aiohttp.ClientResponseError as error:
                problem = f"the controller at {self._place} refuses: {error.message}"
            except (aiohttp.ClientError, OSError):
                problem = f"no controller answers at {self._place}"
            except (msgspec.MsgspecError, ValueError, RecursionError):
                problem = f"what answers at {self._place} is not a controller of this version"
            self._lost(problem)
            await asyncio.sleep(_PAUSE_SECONDS)

    def _lost(self, problem: str) -> None:
        if problem == self._down:
            return
        if self._down_since is None:
            self._down_since = self._at or time.time()
            self._series.interrupt()
        self._down = problem
        _log.info("%s", problem)
        self._broadcast(_text({"down": problem, "since": self._down_since}))

    async def _follow(self) -> None:
        # The kernel's buffer for a Unix socket is large; a reader that stops would not be noticed.
        timeout = aiohttp.ClientTimeout(total=None, sock_read=_SILENT_SECONDS)
        async with self._session.get("http://controller/v1/events", timeout=timeout) as answer:
            if answer.status == 404:
                raise aiohttp.ClientResponseError(
                    answer.request_info,
                    answer.history,
                    status=404,
                    message="it is older than this tfm web and has no /v1/events",
                )
            answer.raise_for_status()
            pending = bytearray()
            async for chunk in answer.content.iter_any():
                *lines, rest = chunk.split(b"\n")
                for line in lines:
                    pending += line
                    self.hear(bytes(pending))
                    pending.clear()
                pending += rest
                if len(pending) > _LONGEST_LINE:
                    raise ValueError("a line has no end")

    def hear(self, text: bytes) -> None:
        """Note a line of the stream, and pass it on.

        Raises:
            msgspec.MsgspecError, ValueError, RecursionError: It is no line of a controller.
        """
        # First what may fail, as each new viewer is sent what is kept.
        shown = text.decode()
        line = msgspec.json.decode(text, type=_Line)
        jobs = {msgspec.json.decode(job, type=_Named).id: _kept(job) for job in line.jobs}
        if bytes(line.info) != _NULL:
            self._info = _kept(line.info)
        if bytes(line.power) != _NULL:
            self._power = _kept(line.power)
        if line.whole:
            self._jobs.clear()
            self._series.forget()
        self._jobs |= jobs
        for job in line.jobs:
            self._series.note(job)
        for gone in line.gone:
            self._jobs.pop(gone, None)
            self._series.drop(gone)
        if self._down_since is not None:
            self._gaps.append((self._down_since, line.at))
            self._broadcast(_text({"gap": self._gaps[-1]}))
        self._at, self._ended = line.at, line.ended
        self._down = self._down_since = None
        self._broadcast(shown)
        sample = self._series.sample(line.at)
        if sample is not None:
            self._broadcast(_sample(sample))


def _kept(raw: msgspec.Raw) -> msgspec.Raw:
    """Return a copy, so that the line it is a part of is not kept in memory."""
    return raw.copy()


def _sample(sample: Sample) -> str:
    return _text({"sample": sample})


def _text(said: object) -> str:
    return msgspec.json.encode(said).decode()
