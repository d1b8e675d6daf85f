# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Time series of the cores and usage of all jobs in the last half hour, once a second. No I/O."""

from __future__ import annotations

from collections import deque
from typing import Final

import msgspec

_SECONDS: Final = 1.0
_KEPT: Final = 1800

# Time, granted CPUs, used CPUs, running jobs, waiting jobs, watts. A row of nulls is a gap.
Sample = tuple[float, float | None, float | None, int | None, int | None, float | None]


class _Part(msgspec.Struct):
    """Contribution of a job to the sums."""

    id: str
    state: str
    granted: list[int]
    used_cpus: float | None
    watts: float | None = None


class Series:
    """Samples of the sums of all noted jobs."""

    def __init__(self) -> None:
        self._parts: dict[str, _Part] = {}
        self._samples: deque[Sample] = deque(maxlen=_KEPT)

    def note(self, job: msgspec.Raw) -> None:
        """Note a job that is new or has changed."""
        part = msgspec.json.decode(job, type=_Part)
        self._parts[part.id] = part

    def drop(self, job: str) -> None:
        """Forget a job."""
        self._parts.pop(job, None)

    def forget(self) -> None:
        """Forget all jobs, but not the samples."""
        self._parts.clear()

    def interrupt(self) -> None:
        """Note that nothing is known from now until the next sample."""
        if self._samples:
            at = self._samples[-1][0]
            self._samples.append((at + _SECONDS / 2, None, None, None, None, None))

    def sample(self, now: float) -> Sample | None:
        """Take a sample and return it; None if the last one is too recent."""
        if self._samples and now < self._samples[-1][0] + _SECONDS:
            return None
        parts = self._parts.values()
        states = [part.state for part in parts]
        watts = [part.watts for part in parts if part.watts is not None]
        self._samples.append(
            (
                round(now, 2),
                len({cpu for part in parts for cpu in part.granted}),
                round(sum(part.used_cpus or 0.0 for part in parts), 2),
                states.count("running"),
                states.count("waiting"),
                round(sum(watts), 1) if watts else None,
            )
        )
        return self._samples[-1]

    def columns(self) -> list[list[float | None]]:
        """Return the samples, one list per quantity."""
        return [list(column) for column in zip(*self._samples, strict=True)]
