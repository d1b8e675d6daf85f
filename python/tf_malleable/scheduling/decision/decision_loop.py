# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Decision loop: when decisions are made, for the controller and the simulator alike.

Every event leads to the same reaction: make a decision, compare it with the current grants, and
carry out the differences. One reaction is enough for all events of a moment, and a policy may
ask for a review later. Time and effects are ports.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Protocol

from tf_malleable.model import Allocation, Grant
from tf_malleable.scheduling.decision.decision import Change, changes
from tf_malleable.scheduling.records.usage import SAMPLE_SECONDS


class Cancellable(Protocol):
    """A scheduled call."""

    def cancel(self) -> object:
        """Cancel the call, if it has not been made yet."""
        ...


class Timers(Protocol):
    """Clock and timers of a loop. Times are in seconds on the clock of the jobs' records."""

    def now(self) -> float:
        """Return the time."""
        ...

    def soon(self, call: Callable[[], None]) -> Cancellable:
        """Call a function once all events of this moment have been handled."""
        ...

    def at(self, when: float, call: Callable[[], None]) -> Cancellable:
        """Call a function at a time."""
        ...


class Effects(Protocol):
    """Effects of decisions."""

    def decide(self, now: float) -> Allocation:
        """Return the allocation of all live jobs."""
        ...

    def grants(self) -> tuple[Mapping[str, Grant], Collection[str]]:
        """Return the current grants, and the jobs that run without one; see `changes`."""
        ...

    def carry_out(self, found: Sequence[Change], now: float) -> None:
        """Carry out changes, in this order."""
        ...


class DecisionLoop:
    """Makes decisions when they are requested, and at the reviews that they ask for.

    Not thread-safe.
    """

    def __init__(self, timers: Timers, effects: Effects) -> None:
        self._timers, self._effects = timers, effects
        self._requested: Cancellable | None = None
        self._review: Cancellable | None = None

    @property
    def is_requested(self) -> bool:
        """Whether a decision has been requested and not been made."""
        return self._requested is not None

    def request(self) -> None:
        """Schedule one decision for all events of this moment."""
        if self._requested is None:
            self._requested = self._timers.soon(self.react)

    def react(self) -> None:
        """Make a decision now and carry out what changes."""
        self.cancel_request()
        now = self._timers.now()
        allocation = self._effects.decide(now)
        self._effects.carry_out(changes(allocation, *self._effects.grants()), now)
        self.cancel_review()
        if allocation.review_at is not None:
            at = max(now + SAMPLE_SECONDS, allocation.review_at)
            self._review = self._timers.at(at, self.request)

    def cancel_request(self) -> None:
        """Cancel the decision that has been requested, if any."""
        if self._requested is not None:
            self._requested.cancel()
            self._requested = None

    def cancel_review(self) -> None:
        """Cancel the review that the last decision asked for, if any."""
        if self._review is not None:
            self._review.cancel()
            self._review = None

    def close(self) -> None:
        """Cancel everything that is scheduled."""
        self.cancel_request()
        self.cancel_review()
