# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Traces of supercomputers in the Standard Workload Format, version 2.2.

Each line is a job, with 18 fields separated by white space; -1 stands for unknown values, and
lines that begin with a semicolon are comments. Format: Feitelson, "The Standard Workload
Format", Parallel Workloads Archive, https://www.cs.huji.ac.il/labs/parallel/workload/swf.html;
Chapin et al., "Benchmarks and Standards for the Evaluation of Parallel Job Schedulers", 1999.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

from tf_malleable.simulate.engine.workload import Assumed, Workload
from tf_malleable.simulate.traces.fields import number
from tf_malleable.simulate.traces.trace_jobs import UNKNOWN_USER, Gathering
from tf_malleable.workload.lines import each_line

FIELDS: Final = 18
UNKNOWN: Final = -1

_COMPLETED: Final = 1
_ENDED_BEFORE: Final = {0: "failed before they started", 5: "cancelled before they started"}
# A checkpointed job has these lines in addition to the one that sums it up.
_PARTS: Final = {
    2: "partial executions that were continued",
    3: "last partial executions of jobs that completed",
    4: "last partial executions of jobs that failed",
}
_STATUSES: Final = "0 (failed), 1 (completed), 2, 3 or 4 (partial execution), 5 (cancelled) or -1"


def read_swf(path: Path, assumed: Assumed, *, trust_estimates: bool = False) -> Workload:
    """Return the jobs of a trace.

    Args:
        path: The trace.
        assumed: Assumptions about what the trace does not say of its jobs.
        trust_estimates: True to use the requested time as the expected run time. It is rather
            an upper bound: few jobs need all of it.

    Raises:
        ValueError: The file cannot be read, a line is invalid, or there are no jobs.
    """
    found = Gathering(path, assumed)
    if trust_estimates:
        found.assume("users expect a job to run for as long as they requested")
    each_line(path, _Lines(found, trust_estimates).parse, comment=";")
    return found.workload()


class _Lines:
    def __init__(self, found: Gathering, trust_estimates: bool) -> None:
        self._found = found
        self._trust_estimates = trust_estimates
        self._last = 0.0

    def parse(self, line: str) -> None:
        fields = line.split()
        if not fields:
            return
        if len(fields) != FIELDS:
            raise ValueError(f"a job must have {FIELDS} fields, not {len(fields)}")
        at = self._arrival(fields[1])
        status = _integer("the status (field 11)", fields[10])
        if status in _PARTS:
            self._found.leave_out(_PARTS[status])
            return
        if status not in (UNKNOWN, _COMPLETED, *_ENDED_BEFORE):
            raise ValueError(f"the status (field 11) must be {_STATUSES}, not {fields[10]}")
        seconds = number("the run time (field 4)", fields[3])
        if status in _ENDED_BEFORE and seconds in (0, UNKNOWN):
            self._found.leave_out(_ENDED_BEFORE[status])
            return
        if seconds <= 0:
            raise ValueError(
                f"the run time (field 4) must be above 0 seconds, not {fields[3]}; only of a job"
                " that failed or was cancelled may it be 0 or -1"
            )
        self._found.add(
            at,
            seconds,
            _cores(fields),
            name=_name(fields),
            user=self._user(fields[11]),
            failed=status in _ENDED_BEFORE,
            expected=self._expected(fields[8]),
        )

    def _arrival(self, text: str) -> float:
        at = number("the submit time (field 2)", text)
        if at < 0:
            raise ValueError(f"the submit time (field 2) must be at least 0 seconds, not {text}")
        if at < self._last:
            raise ValueError(
                "submit times (field 2) must not decrease from line to line, but"
                f" {text} comes after {self._last:.15g}"
            )
        self._last = at
        return at

    def _user(self, text: str) -> str:
        user = _integer("the user id (field 12)", text)
        if user == UNKNOWN:
            self._found.assume("jobs of unknown users belong to one user")
            return UNKNOWN_USER
        return f"user{user}"

    def _expected(self, text: str) -> float | None:
        requested = number("the requested time (field 9)", text)
        return requested if self._trust_estimates and requested > 0 else None


def _cores(fields: list[str]) -> int:
    requested = _integer("the requested processors (field 8)", fields[7])
    if requested != UNKNOWN:
        return _checked(requested, "the requested processors (field 8)", ", or -1 if unknown")
    allocated = _integer("the allocated processors (field 5)", fields[4])
    return _checked(allocated, "the allocated processors (field 5)", " if field 8 is -1")


def _checked(cores: int, name: str, condition: str) -> int:
    if cores < 1:
        raise ValueError(f"{name} must be at least 1{condition}, not {cores}")
    return cores


def _name(fields: list[str]) -> str:
    """Return a name common to jobs of the same program, as far as that is known."""
    application = _integer("the executable number (field 14)", fields[13])
    if application != UNKNOWN:
        return f"app{application}"
    queue = _integer("the queue number (field 15)", fields[14])
    return "job" if queue == UNKNOWN else f"queue{queue}"


def _integer(name: str, text: str) -> int:
    value = number(name, text)
    if not value.is_integer() or value < UNKNOWN:
        raise ValueError(f"{name} must be an integer of at least 0, or -1 if unknown, not {text}")
    return int(value)
