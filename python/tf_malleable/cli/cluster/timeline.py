# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Timeline rows of MalleableJobs, from the history in their statuses. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, Final, Literal

from tf_malleable.api.schema.history import Outcome
from tf_malleable.cli.cluster.job_view import JobView, seconds
from tf_malleable.cluster import quantities
from tf_malleable.figures.timeline import Row, Stretch

TimelineUnit = Literal["CPU", "worker"]
_State = Literal["running", "waiting", "paused"]
_Part = tuple[float, float, _State, float]
_FIELDS: Final = {"CPU": "cpus", "worker": "workers"}
_OUTCOMES: Final[Mapping[str, Outcome]] = {"Succeeded": "finished", "Failed": "failed"}


def unit_of(jobs: Sequence[JobView]) -> TimelineUnit:
    """Return the unit in which all changes of all jobs are known."""
    changes = [each for job in jobs for each in job.rescales]
    known = all("cpus" in each.before and "cpus" in each.after for each in changes)
    return "CPU" if known else "worker"


def capacity(nodes: Sequence[Mapping[str, Any]]) -> int:
    """Return how many CPUs of the nodes are allocatable, in total."""
    found = ((node.get("status") or {}).get("allocatable") or {} for node in nodes)
    return int(sum(quantities.number(each.get("cpu", 0)) for each in found))


def rows(jobs: Sequence[JobView], unit: TimelineUnit, now: float) -> list[Row]:
    """Return a row for each job; times count from the creation of the first job."""
    zero = min((job.created for job in jobs), default=0.0)
    names = Counter(job.name for job in jobs)
    return [
        Row(
            job.name if names[job.name] == 1 else f"{job.namespace}/{job.name}",
            tuple(
                Stretch(begin - zero, end - zero, state, height)
                for begin, end, state, height in _stretches(job, _FIELDS[unit], now)
                if end > begin
            ),
            _OUTCOMES.get(job.phase),
        )
        for job in jobs
    ]


def _stretches(job: JobView, field: str, now: float) -> list[_Part]:
    end = now if job.ended is None else job.ended
    if job.started is None:
        return [(job.created, end, "waiting", 0.0)]
    made: list[_Part] = [(job.created, job.started, "waiting", 0.0)]
    changes = [(each.at, float(each.after.get(field) or 0)) for each in job.rescales]
    at, height = job.started, _first(job, field)
    for then, after in [*changes, *_stop(job), (end, -1.0)]:
        if after == height:
            continue
        then = min(max(then, at), end)
        has_run = any(part[2] == "running" for part in made)
        made.append((at, then, _state(height, has_run), height))
        at, height = then, after
    return made


def _state(height: float, has_run: bool) -> _State:
    if height > 0:
        return "running"
    # The first worker runs by now, but trains only once it has built its model.
    return "paused" if has_run else "waiting"


def _first(job: JobView, field: str) -> float:
    """Return the height with which a job began, as far as that is remembered."""
    if job.rescales:
        first = job.rescales[0]
        return float(
            (first.before if first.at > (job.started or 0.0) else first.after).get(field) or 0
        )
    return float((job.status.get("actual") or {}).get(field) or 0)


def _stop(job: JobView) -> list[tuple[float, float]]:
    """Return the change to 0 of a job that has not ended and does not run; otherwise none."""
    if job.has_ended:
        return []
    for one in job.status.get("conditions") or ():
        if one["type"] == "Running" and one["status"] != "True":
            since = seconds(one.get("lastTransitionTime"))
            return [] if since is None else [(since, 0.0)]
    return []
