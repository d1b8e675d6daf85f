# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Requests of a simulated service: open arrivals, and a queue that shares the cores equally.

Requests arrive whether or not earlier ones have ended, as those of many independent users do
(Poisson). All need the same work, and those in flight share the cores equally, as threads do.
"""

from __future__ import annotations

import math
import random
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True)
class Bursts:
    """Times of more requests.

    Attributes:
        factor: Rate in a burst, relative to the usual one; at least 1.
        seconds: Duration of a burst.
        every: Time from the begin of one burst to that of the next, the first after this time.
    """

    factor: float
    seconds: float
    every: float

    def __post_init__(self) -> None:
        values = (self.factor, self.seconds, self.every)
        if not all(map(math.isfinite, values)) or self.factor < 1:
            raise ValueError(f"bursts must have a finite rate of at least 1, not {self.factor:g}")
        if not 0 < self.seconds < self.every:
            raise ValueError(
                f"bursts must be shorter than the time between them, not {self.seconds:g} s each"
                f" {self.every:g} s"
            )


@dataclass(frozen=True)
class RequestStream:
    """Requests to a service.

    Attributes:
        rate: Requests a second, on average outside of bursts; above 0.
        seconds: Work of a request, in seconds on one core; above 0.
        bursts: Times of more requests; None for none.

    Raises:
        ValueError: A number is not finite, or not above 0.
    """

    rate: float
    seconds: float
    bursts: Bursts | None = None

    def __post_init__(self) -> None:
        for name, value in (("the rate of requests", self.rate), ("their work", self.seconds)):
            if not 0 < value < math.inf:
                raise ValueError(f"{name} must be a finite number above 0, not {value:g}")

    def rate_at(self, seconds: float) -> tuple[float, float]:
        """Return the rate after the begin of the service, and until when it holds."""
        bursts = self.bursts
        if bursts is None:
            return self.rate, math.inf
        number = math.floor(seconds / bursts.every)
        begin = number * bursts.every
        if number and seconds < begin + bursts.seconds:
            return self.rate * bursts.factor, begin + bursts.seconds
        return self.rate, begin + bursts.every


class RequestQueue:
    """Requests in flight of a service, which begins at time 0. Times are in seconds.

    Attributes:
        at: Time up to which it was simulated.
        ended: Latencies of requests that have ended; the caller takes them out.
    """

    def __init__(self, stream: RequestStream, draw: random.Random) -> None:
        self.at = 0.0
        self.ended: list[float] = []
        self._stream = stream
        self._draw = draw
        # All in flight have had the same service since they arrived, so they end in this order.
        self._begun: deque[tuple[float, float]] = deque()
        self._service = 0.0
        self._next = self._arrival(0.0)

    @property
    def in_flight(self) -> int:
        """Number of requests that have arrived and not ended."""
        return len(self._begun)

    @property
    def oldest_seconds(self) -> float:
        """Time for which the oldest of these has been in flight."""
        return self.at - self._begun[0][0] if self._begun else 0.0

    def advance(self, until: float, cores: float, speed: Callable[[float], float]) -> float:
        """Serve requests with some cores until a time; return the CPU seconds used.

        Args:
            until: The time.
            cores: Number of cores, which may be a fraction.
            speed: Returns the speed of a request with this number of cores for itself.
        """
        used = 0.0
        while self.at < until:
            number = len(self._begun)
            pace = speed(cores / number) if number and cores else 0.0
            end = self.at + (self._begun[0][1] - self._service) / pace if pace else math.inf
            now = min(until, self._next, end)
            self._service += pace * (now - self.at)
            used += pace * number * (now - self.at)
            self.at = now
            if now == end:
                begun, _ = self._begun.popleft()
                self.ended.append(now - begun)
            elif now == self._next:
                self._begun.append((now, self._service + self._stream.seconds))
                self._next = self._arrival(now)
        return used

    def _arrival(self, now: float) -> float:
        """Return the time of the next arrival of a Poisson process whose rate may change."""
        while True:
            rate, until = self._stream.rate_at(now)
            at = now + self._draw.expovariate(rate)
            if at <= until:
                return at
            now = until  # The process has no memory.
