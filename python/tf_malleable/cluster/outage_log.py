# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Log of the API server's outages: a line when one begins, and a line when it is over."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from typing import Final

from tf_malleable.cluster.kube.client import CallError

# A server that comes and goes is told of no more often than this.
_QUIET_SECONDS: Final = 60.0


class OutageLog:
    """Says once that the API server is away, and once that it is back."""

    def __init__(self, log: logging.Logger, clock: Callable[[], float] = time.monotonic) -> None:
        """Create a log.

        Args:
            log: Where the lines go.
            clock: Returns the time, in seconds of a steady clock.
        """
        self._log, self._clock = log, clock
        self._since: float | None = None
        self._quiet_until = 0.0
        self._is_told = False

    def begin(self, error: CallError) -> None:
        """Note a call that failed by an outage."""
        now = self._clock()
        if self._since is None:
            self._since = now
            self._is_told = False
        if not self._is_told and now >= self._quiet_until:
            self._is_told, self._quiet_until = True, now + _QUIET_SECONDS
            self._log.warning("the API server does not answer, trying again: %s", error)

    def end(self) -> None:
        """Note a call that succeeded."""
        if self._since is not None and self._is_told:
            seconds = self._clock() - self._since
            self._log.warning("the API server answers again, after %.0f s", seconds)
        self._since = None
