# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""How fast the machine is at a time: on a virtual one, what others do makes a difference.

The host takes a CPU away for milliseconds at a time, which the virtual machine takes for CPU time
of the program that ran. So a fixed piece of work is timed again and again while jobs run, in CPU
time, which does not count the waiting for them; the mean says how much longer all takes. (A
median would not: most pieces are not interrupted.)
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from statistics import fmean
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from tf_malleable.api.history import History
    from tf_malleable.simulate.task import Task

# About 3 ms of a core, after another 0.3 ms that fill its caches: 0.8 % of two cores.
_TURNS: Final = 60_000
_PERIOD_SECONDS: Final = 0.2


@dataclass(frozen=True)
class Run:
    """What was recorded of a live run.

    Attributes:
        history: Its jobs.
        probe_seconds: CPU time of a fixed piece of work while it ran, in the mean.
    """

    history: History
    probe_seconds: float


@dataclass
class Probe:
    """Times a fixed piece of work while something else runs.

    Attributes:
        taken: CPU time of each piece, in seconds.
    """

    taken: list[float] = field(default_factory=list)

    @property
    def seconds(self) -> float:
        """The mean CPU time of a piece, in seconds."""
        return fmean(self.taken)


@contextmanager
def probing() -> Iterator[Probe]:
    """Time a fixed piece of work five times a second within the with statement."""
    probe, over = Probe(), threading.Event()

    def keep_on() -> None:
        while True:
            probe.taken.append(_piece())
            if over.wait(_PERIOD_SECONDS):
                return

    thread = threading.Thread(target=keep_on, daemon=True)
    thread.start()
    try:
        yield probe
    finally:
        over.set()
        thread.join()


def _piece() -> float:
    _work(_TURNS // 10)
    begin = time.thread_time()
    _work(_TURNS)
    return time.thread_time() - begin


def _work(turns: int) -> int:
    done = 0
    for number in range(turns):
        done += number * number & 7
    return done


def slowed(tasks: Sequence[Task], factor: float) -> list[Task]:
    """Return the tasks of a machine on which all computing takes `factor` times as long.

    Waits for input take as long as before.
    """
    return [
        replace(
            task,
            seconds=task.seconds * factor,
            starting=task.starting * factor,
            ending=task.ending * factor,
            busy=task.busy * factor,
        )
        for task in tasks
    ]
