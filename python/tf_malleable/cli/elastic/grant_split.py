# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Distribution of a controller's grant among a training's workers, and progress reports."""

from __future__ import annotations

import time
from collections.abc import Collection, Mapping, Sequence
from typing import Any, Final

from tf_malleable.api.schema.join import Join
from tf_malleable.cli.elastic.job import HostJob
from tf_malleable.cli.elastic.placement import Placement
from tf_malleable.cli.elastic.processes import started_by
from tf_malleable.cli.elastic.supervisor_messages import Numbers
from tf_malleable.elastic.membership.throughput import WorkerSample, WorkerSpeeds
from tf_malleable.elastic.membership.worker_count import Bounds, Patience, Seen, Sizing, wanted

_LOOK_SECONDS: Final = 0.5
_IN = "in the training"

Status = Mapping[str, Any]


class GrantSharing:
    """Decides the number of workers, and the CPUs of each."""

    def __init__(self, join: Join, cpus: Collection[int], bounds: Bounds) -> None:
        """Apply the first grant, and choose the first number of workers.

        Args:
            join: Job of the training.
            cpus: CPUs of the first grant.
            bounds: Possible numbers of workers.
        """
        self._bounds = bounds
        self._placement = Placement(bounds.threads)
        self._placement.take(cpus)
        self._job = HostJob(join, self._placement.take, lambda: report(self._status))
        self._status: Status = {}
        self._measured = WorkerSpeeds()
        self._workers: Sequence[int] = ()
        self._look_at = 0.0
        self.sizing = Sizing(wanted(bounds, Seen(0, len(cpus))))

    @property
    def cpus(self) -> Sequence[int]:
        """The granted CPUs."""
        return self._placement.cpus

    def start(self) -> None:
        """Start to follow the grants."""
        self._job.start()

    def stop(self) -> None:
        """Stop following the grants."""
        self._job.stop()

    def was_resized(self, workers: int) -> None:
        """Note that the desired number of workers was changed elsewhere."""
        self.sizing = Sizing(workers, time.monotonic())

    def look(self, status: Status, numbers: Numbers, workers: Sequence[int]) -> int:
        """Place the processes; return the desired number of workers.

        Args:
            status: Latest status from the coordinator; empty if unknown.
            numbers: Desired numbers, and whether they were set by hand.
            workers: Pids of all workers.
        """
        now = time.monotonic()
        is_new = tuple(workers) != tuple(self._workers)
        if not is_new and now < self._look_at:
            return numbers.workers
        self._look_at, self._workers = now + _LOOK_SECONDS, tuple(workers)
        if status:
            self._status = status
        members = {started_by(pid, workers) for pid in _members(self._status)}
        here = [pid for pid in workers if pid in members]
        self._placement.arrange(here, [pid for pid in workers if pid not in members])
        self._measure(now, here, numbers.workers)
        if numbers.by_hand:
            self.was_resized(numbers.workers)
            return numbers.workers
        measured = self._measured
        seen = Seen(self.sizing.workers, len(self.cpus), measured.busy, measured.speeds)
        self.sizing = self.sizing.after(wanted(self._bounds, seen), now, Patience())
        return self.sizing.workers

    def _measure(self, now: float, members: Sequence[int], wanted: int) -> None:
        is_steady = self._status.get("phase") == "steady" and len(members) == wanted
        cores = len(self.cpus)
        if not is_steady or not cores or len(members) != len(self._workers):
            self._measured.add(None)
            return
        used = self._placement.cpu_seconds()
        self._measured.add(WorkerSample(now, len(members), cores, int(self._status["step"]), used))


def _members(status: Status) -> set[int]:
    return {
        int(each["place"].rpartition(":")[2])
        for each in status.get("processes", ())
        if each["role"] == "worker" and each["state"] == _IN
    }


def report(status: Status) -> dict[str, Any]:
    """Return the body of a progress report; a step counts once, however many members compute it."""
    if not status:
        return {}
    inside = [each for each in status["processes"] if each["state"] == _IN]
    workers = [each for each in inside if each["role"] == "worker"]
    known = [each["batches_done"] for each in workers if each["batches_done"] is not None]
    totals = [each["batches_total"] for each in workers if each["batches_total"] is not None]
    rescales = status["rescales"]
    last = rescales[-1] if rescales else None
    pauses = [each["pause_seconds"] for each in rescales if each["pause_seconds"] is not None]
    elastic: dict[str, Any] = {
        "workers": len(workers),
        "servers": len(inside) - len(workers),
        "generation": status["generation"],
        "most_workers": max((each["workers_to"] for each in rescales), default=0),
        "longest_pause_seconds": max(pauses, default=None),
    }
    if last is not None:
        elastic |= {"changed": last["at"], "reason": last["reason"]}
        elastic["pause_seconds"] = last["pause_seconds"]
    done = max(known, default=status["step"])
    total = {"steps_total": max(totals)} if totals else {}
    return {"steps_done": done, **total, "elastic": elastic}
