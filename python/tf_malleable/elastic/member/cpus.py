# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""With how many CPUs this process computes, also if its container or pod is resized meanwhile."""

from __future__ import annotations

import threading

from tf_malleable.linux.effective_cpus import EffectiveCpus, Warnings

# A quota can be as small as a thousandth.
_LEAST = 0.001


class OwnCpus:
    """May be asked several times a second, from any thread."""

    def __init__(self, fixed: float | None) -> None:
        """Begin.

        Args:
            fixed: How many there are; None for as many as affinity and cgroups allow at the time.
        """
        self._fixed = fixed
        self._lock = threading.Lock()
        # Whoever sets limits of threads warns of what cannot be read.
        self._allowed = None if fixed is not None else EffectiveCpus(Warnings(lambda _: None))
        self._last: float | None = None

    def now(self) -> float:
        """Return how many there are."""
        if self._allowed is None:
            return self._fixed or _LEAST
        with self._lock:
            if self._last is None or self._allowed.may_have_changed():
                self._last = max(_LEAST, self._allowed.read())
            return self._last
