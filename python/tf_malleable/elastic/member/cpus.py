# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Number of CPUs with which this process computes, also after its container or pod is resized."""

from __future__ import annotations

import threading

from tf_malleable.linux.cgroups.effective_cpus import EffectiveCpus, Warnings

# A CPU quota can be as small as a thousandth.
_LEAST = 0.001


class OwnCpus:
    """Number of CPUs of this process; may be read several times a second, from any thread."""

    def __init__(self, fixed: float | None) -> None:
        """Create the reader.

        Args:
            fixed: Number of CPUs; None for as many as affinity and cgroups allow at the time.
        """
        self._fixed = fixed
        self._lock = threading.Lock()
        # The code that sets thread limits warns of what cannot be read.
        self._allowed = None if fixed is not None else EffectiveCpus(Warnings(lambda _: None))
        self._last: float | None = None

    def now(self) -> float:
        """Return the current number of CPUs."""
        if self._allowed is None:
            return self._fixed or _LEAST
        with self._lock:
            if self._last is None or self._allowed.may_have_changed():
                self._last = max(_LEAST, self._allowed.read())
            return self._last
