# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Provision: the resources other than cores, which are memory, GPUs, and places for jobs."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace

from tf_malleable.api.schema.job_request import JobRequest
from tf_malleable.api.schema.refusal import Refusal
from tf_malleable.controller.jobs.live_job import LiveJob
from tf_malleable.linux.memory import Memory, read_memory
from tf_malleable.model.need import Basis, Need, Supply
from tf_malleable.model.units import size_text
from tf_malleable.scheduling.decision.decision import Change

# Memory that a job of which nothing is known is assumed to need. An assumption: importing a
# framework takes about as much.
_ASSUMED = 256 << 20
# Seconds after which such a job is assumed to need no more memory than it has.
_GROWN_SECONDS = 30.0
# Share of the memory that is kept free for everything that is not a job.
_RESERVED_SHARE = 0.02
# Share of the time in which some process waits for memory; above it, no job starts of which
# nothing is known.
_STRAINED = 0.1
_READ_EVERY_SECONDS = 0.2


@dataclass
class HostMemory:
    """Memory of this host, read at most five times a second."""

    read: Callable[[], Memory | None] = read_memory
    _last: Memory | None = None
    _at: float | None = None

    def now(self) -> Memory | None:
        """Return the memory now; None if the kernel does not tell."""
        clock = time.monotonic()
        if self._at is None or clock - self._at > _READ_EVERY_SECONDS:
            self._last, self._at = self.read(), clock
        return self._last


@dataclass(frozen=True)
class Provision:
    """Resources other than cores.

    Attributes:
        memory: Memory of this host; None if jobs do not wait for memory.
        gpus: Numbers of the GPUs shared out.
        most_jobs: Maximum number of jobs that have started and not ended; None for no limit.
    """

    memory: HostMemory | None = None
    gpus: tuple[int, ...] = ()
    most_jobs: int | None = None

    def check(self, request: JobRequest, *, running: bool = False) -> None:
        """Check that the requested resources exist on this host.

        Raises:
            Refusal: 400; the request can never be satisfied.
        """
        if request.gpus > len(self.gpus):
            raise Refusal(
                400,
                f"gpus must be at most {len(self.gpus)}, the number of GPUs shared out here,"
                f" not {request.gpus}",
            )
        if request.gpus and running:
            raise Refusal(400, "gpus must be 0 for a process that is already running")
        memory = None if self.memory is None else self.memory.now()
        if memory is not None and request.mem is not None and request.mem > _usable(memory.total):
            raise Refusal(
                400,
                f"mem must be at most {size_text(_usable(memory.total))}, the memory of this host"
                f" without a reserve, not {size_text(request.mem)}",
            )

    def supply(self, jobs: Iterable[LiveJob]) -> Supply:
        """Return the current supply, for a decision about these live jobs."""
        waits = any(live.record.started is None for live in jobs)
        memory = self.memory.now() if self.memory is not None and waits else None
        if memory is None:
            return Supply(gpus=len(self.gpus), most_jobs=self.most_jobs)
        reserve = memory.total - _usable(memory.total)
        return Supply(
            mem=float(memory.available - reserve),
            strained=(memory.stalled or 0.0) > _STRAINED,
            gpus=len(self.gpus),
            most_jobs=self.most_jobs,
        )

    def hand_out(self, changes: Iterable[Change], jobs: Mapping[str, LiveJob]) -> None:
        """Assign GPUs to the jobs that are about to start; jobs keep them until they end."""
        if not self.gpus:
            return
        taken = {gpu for live in jobs.values() for gpu in live.record.gpus or ()}
        for change in changes:
            live = jobs[change.job]
            if change.grant and live.record.started is None:
                free = [gpu for gpu in self.gpus if gpu not in taken]
                gpus = tuple(free[: live.record.gpus_wanted])
                live.amend(replace(live.record, gpus=gpus))
                taken.update(gpus)


@dataclass
class Needs:
    """Needs of live jobs other than cores, as far as known.

    Attributes:
        jobs: Live jobs by id.
        now: Unix time in seconds.
    """

    jobs: Mapping[str, LiveJob]
    now: float
    _peaks: dict[tuple[int, str], int] | None = field(default=None, init=False)

    def of(self, job: str) -> Need:
        """Return the needs of a job."""
        live = self.jobs[job]
        record = live.record
        mem, basis = self._expected(live)
        if record.started is None:
            return Need(mem, basis, 0.0, record.gpus_wanted)
        if basis == "unknown" and self.now - record.started > _GROWN_SECONDS:
            mem = 0.0
        peak = max(mem, float(live.measured.peak_mem or 0))
        return Need(peak, basis, float(live.measured.used_mem or 0), len(record.gpus or ()))

    def _expected(self, live: LiveJob) -> tuple[float, Basis]:
        if live.record.mem is not None:
            return float(live.record.mem), "declared"
        if live.measured.lessons.peak_mem is not None:
            return live.measured.lessons.peak_mem, "learned"
        # Other jobs of the same program are an indication, even if their arguments differ.
        similar = self._similar().get((live.record.uid, live.record.program), 0)
        return float(max(_ASSUMED, similar)), "unknown"

    def _similar(self) -> dict[tuple[int, str], int]:
        """Return the highest memory peak of live jobs, by user and program."""
        if self._peaks is None:
            self._peaks = {}
            for live in self.jobs.values():
                if live.measured.peak_mem is not None:
                    key = live.record.uid, live.record.program
                    self._peaks[key] = max(live.measured.peak_mem, self._peaks.get(key, 0))
        return self._peaks


def _usable(total: int) -> int:
    return int(total * (1 - _RESERVED_SHARE))
