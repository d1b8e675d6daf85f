# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""CPUs that a job waits for while others compute on all the CPUs it has lent. Pure.

CPU time does not show this: a thread that wakes up among ten of a borrower gets a tenth of a
CPU. But the kernel counts, for each thread, how long it was runnable without running (its
run delay). This time counts in full, however many threads compete.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass
class Queueing:
    """Time that a job's threads queue for a CPU. Times are in seconds, on any one clock.

    Attributes:
        looked_at: Time of the last look; None before the first.
        cpus: CPUs that the job waited for between the last two looks; 0 while unknown.
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
                # A new thread has waited only since the last look.
                before, was_runnable = self._threads.get(thread, (0.0, False))
                waited += min(seconds, max(0.0, delay - before))
                # The kernel adds a wait when it ends, and this one may not have ended yet.
                stuck += is_runnable and was_runnable
            self.cpus = max(waited / seconds, float(stuck))
        self.looked_at, self._threads = now, threads

    def forget(self) -> None:
        """Discard what was noted: the job no longer lends all its CPUs."""
        self.looked_at, self.cpus, self._threads = None, 0.0, {}
