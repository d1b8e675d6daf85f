# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Latency of the requests that the program serves: measured here, reported by the agent.

A request costs a few microseconds, without locks: threads of the program append to a deque and
set entries of a dict, both in one step, and the agent's thread takes them out.
"""

from __future__ import annotations

import functools
import inspect
import os
import time
from collections import Counter, deque
from collections.abc import Callable
from contextlib import suppress
from contextvars import ContextVar, Token
from types import TracebackType
from typing import Any, Final, TypeVar, cast, overload

from tf_malleable.model.services.latency import bucket_of

_F = TypeVar("_F", bound=Callable[..., Any])

# Requests between two reports; of more, the latest count.
_MOST_ENDED: Final = 1 << 14


class _Requests:
    """Requests of this process.

    Attributes:
        begun: Times at which the requests in flight began, in order.
        ended: Latencies of requests that have ended since the last report.
        is_used: True once there has been a request.
        is_explicit: True once the program itself has measured one.
    """

    def __init__(self) -> None:
        self.begun: dict[object, float] = {}
        self.ended: deque[float] = deque(maxlen=_MOST_ENDED)
        self.is_used = False
        self.is_explicit = False
        self.is_reported_idle = True

    def begin(self) -> object:
        """Note the begin of a request; return what end() takes."""
        key = object()
        self.begun[key] = time.monotonic()
        self.is_used = True
        return key

    def end(self, key: object) -> None:
        """Note the end of a request."""
        begun = self.begun.pop(key, None)
        if begun is not None:
            self.ended.append(time.monotonic() - begun)


_requests = _Requests()
# True inside a request or a training: what is called there is no request of its own.
inside: ContextVar[bool] = ContextVar("tf_malleable_request", default=False)


def _renew() -> None:
    global _requests
    explicit = _requests.is_explicit
    _requests = _Requests()
    _requests.is_explicit = explicit


os.register_at_fork(after_in_child=_renew)


class RequestTimer:
    """One request, as a context manager, sync or async, and a decorator; see request()."""

    def __init__(self) -> None:
        self._key: object = None
        self._token: Token[bool] | None = None

    def __enter__(self) -> None:
        if not inside.get():
            _requests.is_explicit = True
            self._token = inside.set(True)
            self._key = _requests.begin()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        key, token = self._key, self._token
        self._key = self._token = None
        if token is not None:
            _requests.end(key)
            # Another context, as of an async generator that is closed elsewhere, has its own.
            with suppress(ValueError):
                inside.reset(token)

    async def __aenter__(self) -> None:
        self.__enter__()

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.__exit__(kind, error, trace)

    def __call__(self, function: _F) -> _F:
        """Return a function each call of which is a request."""
        if inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
            raise TypeError(
                "request() cannot decorate a generator: its calls end at once; write"
                " 'with tfm.request():' inside of it"
            )
        if inspect.iscoroutinefunction(function):

            @functools.wraps(function)
            async def served(*args: object, **named: object) -> object:
                with RequestTimer():
                    return await function(*args, **named)
        else:

            @functools.wraps(function)
            def served(*args: object, **named: object) -> object:
                with RequestTimer():
                    return function(*args, **named)

        return cast("_F", served)


@overload
def request() -> RequestTimer: ...
@overload
def request(function: _F) -> _F: ...
def request(function: Callable[..., Any] | None = None) -> object:
    """Measure how long a request takes, which `tfm show` has and `tfm run --slo` promises.

    As a context manager (``with tfm.request():``, ``async with``) or as a decorator of a function
    or coroutine function (``@tfm.request``). A request inside another one is a part of it. Once a
    program has measured a request itself, calls of Keras's predict() and of tf.functions are no
    longer counted by themselves.

    A request costs a few microseconds, may be in any thread or task, and has no effect without a
    controller.

    Raises:
        TypeError: The decorated function is a generator function.
    """
    return RequestTimer() if function is None else RequestTimer()(function)


def begin_unasked() -> object:
    """Note the begin of a request that the program does not measure itself; None if it is none."""
    if _requests.is_explicit or inside.get():
        return None
    return _requests.begin()


def end_unasked(key: object, *, counts: bool = True) -> None:
    """Note the end of such a request.

    Args:
        key: What begin_unasked() has returned.
        counts: False if it was no request, after all.
    """
    if counts:
        _requests.end(key)
    else:
        _requests.begun.pop(key, None)


def is_used() -> bool:
    """Return whether the program has served any requests."""
    return _requests.is_used


def report() -> dict[str, Any] | None:
    """Return the requests since the last report, as in a progress report; None if none.

    The agent's thread calls it.
    """
    requests = _requests
    if not requests.is_used:
        return None
    counts: Counter[int] = Counter()
    for _ in range(_MOST_ENDED):  # Or threads that never rest would keep the agent here.
        try:
            counts[bucket_of(requests.ended.popleft())] += 1
        except IndexError:
            break
    in_flight = len(requests.begun)
    if not counts and not in_flight and requests.is_reported_idle:
        return None
    requests.is_reported_idle = not in_flight
    buckets = sorted(counts)
    return {
        "buckets": buckets,
        "counts": [counts[bucket] for bucket in buckets],
        "in_flight": in_flight,
        "oldest_seconds": _oldest(requests),
    }


def _oldest(requests: _Requests) -> float:
    """Return for how long the oldest request in flight has been so."""
    for _ in range(3):
        try:
            return max(0.0, time.monotonic() - next(iter(requests.begun.values())))
        except StopIteration:
            break
        except RuntimeError:  # Another thread has changed the dict between two steps.
            continue
    return 0.0
