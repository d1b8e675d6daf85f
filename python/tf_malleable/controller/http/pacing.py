# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Pacing of requests: no owner of connections takes more than a part of the loop's time.

Each request, and each line of a stream, first waits for its owner's turn. Turns are taken one by
one, so that others are served between two of them, however many requests an owner has sent. What
an owner's turns cost is measured, and the next one waits until the owner is within its part again.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Awaitable, Callable, Generator, Mapping
from types import coroutine
from typing import Any, Final, TypeVar

from tf_malleable.api.routes import Pace
from tf_malleable.controller.http.rates import Rates

_Result = TypeVar("_Result")

# What receiving a request and sending its answer cost, in seconds, which is not measured.
_OVERHEAD: Final = 0.0003


# Part of the loop's time that an owner may take with requests of each kind, their rate per second,
# and how many may come at once. Agents of a thousand jobs report once a second each.
_PACES: Final[Mapping[Pace, tuple[float, float, int]]] = {
    "changes": (0.1, 20.0, 3),
    "reads": (0.25, 1000.0, 500),
    "agents": (0.5, 5000.0, 5000),
}


class Pacing:
    """Turns of all owners. Not thread-safe: one asyncio loop."""

    def __init__(self) -> None:
        self._rates = {pace: Rates(rate, burst) for pace, (_, rate, burst) in _PACES.items()}
        # Requests that wait, of owners that have had a turn just now or must wait for one.
        self._waiting: dict[tuple[Pace, str], deque[asyncio.Future[None]]] = {}

    async def turn(self, pace: Pace, owner: str) -> None:
        """Wait for the next turn of an owner, after all its earlier requests of this kind."""
        mine: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        key = pace, owner
        if (waiting := self._waiting.get(key)) is not None:
            waiting.append(mine)
        else:
            self._waiting[key] = deque([mine])
            self._next(key)
        await mine

    def charge(self, pace: Pace, owner: str, seconds: float) -> None:
        """Record for how many seconds an owner's turn has kept the loop busy."""
        part, _, _ = _PACES[pace]
        self._rates[pace].charge(owner, seconds / part)

    def forget(self, now: float) -> None:
        """Forget the owners that have been inactive for a while."""
        for rates in self._rates.values():
            rates.forget(now)

    def _next(self, key: tuple[Pace, str]) -> None:
        """Give an owner the next turn, now or once it is within its part."""
        pace, owner = key
        loop, waiting = asyncio.get_running_loop(), self._waiting[key]
        while waiting and waiting[0].done():  # The client has hung up.
            waiting.popleft()
        if not waiting:
            del self._waiting[key]
            return
        now = loop.time()
        if wait := self._rates[pace].wait(owner, now):
            loop.call_later(wait, self._next, key)
            return
        self._rates[pace].delay(owner, now)
        self.charge(pace, owner, _OVERHEAD)
        waiting.popleft().set_result(None)
        # The request goes on before this is called, so that what it costs is known by then.
        loop.call_soon(self._next, key)


@coroutine
def measured(
    work: Awaitable[_Result], charge: Callable[[float], None]
) -> Generator[Any, Any, _Result]:
    """Await something, and report for how many seconds each of its steps has kept the loop busy."""
    steps = work.__await__()
    resume: Callable[[Any], Any] = steps.send
    value: object = None
    while True:
        begin = time.perf_counter()
        try:
            awaited = resume(value)
        except StopIteration as end:
            result: _Result = end.value
            return result
        finally:
            charge(time.perf_counter() - begin)
        try:
            value, resume = (yield awaited), steps.send
        except BaseException as error:
            value, resume = error, steps.throw
