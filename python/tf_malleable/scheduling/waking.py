# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Computes how many CPUs a job waits for while others compute on all those it has lent. Pure.

Its CPU time does not tell: a thread that wakes up among ten of a borrower gets a tenth of a
CPU. But the kernel counts, for each thread, how long it was runnable without running (its
run delay). That counts fully, however many it competes with.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass
class Queueing:
    """How a job's threads queue for a CPU. Times are in seconds, on any one clock.

    Attributes:
        looked_at: Time of the last look; None before the first.
        cpus: CPUs it waited for between the last two looks; 0 while unknown.
    """

    looked_at: float | None = None
    cpus: float = 0.0
    _threads: Mapping[int, tuple[float, bool]] = field(default_factory=dict)

    def look(self, threads: Mapping[int, tuple[float, bool]], now: float) -> None:
        """Note the run delay of each thread, by its id, and whether it is runnable now."""
        if self.looked_at is not None and now > self.looked_at:
            seconds = now - self.looked_at
            waited, stuck = 0.0, 0
            for thread, (delay, is_runnable) in threads.items():
                # A new thread has waited since the last look only.
                before, was_runnable = self._threads.get(thread, (0.0, False))
                waited += min(seconds, max(0.0, delay - before))
                # The kernel adds a wait at its end, and this one may not have ended yet.
                stuck += is_runnable and was_runnable
            self.cpus = max(waited / seconds, float(stuck))
        self.looked_at, self._threads = now, threads

    def forget(self) -> None:
        """Discard what was noted: the job does not lend all its CPUs any more."""
        self.looked_at, self.cpus, self._threads = None, 0.0, {}
