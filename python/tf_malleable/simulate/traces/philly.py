# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Trace of Microsoft's Philly clusters: `cluster_job_log`, deep learning in 2017.

Format: "Philly Traces", https://github.com/msr-fiddle/philly-traces, with Jeon et al.,
"Analysis of Large-Scale Multi-Tenant GPU Clusters for DNN Training Workloads", ATC 2019.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from tf_malleable.model.units import quoted
from tf_malleable.simulate.engine.workload import Assumed, Workload
from tf_malleable.simulate.traces.fields import time
from tf_malleable.simulate.traces.json_list import each_element
from tf_malleable.simulate.traces.trace_jobs import UNKNOWN_USER, Gathering
from tf_malleable.workload.lines import shortened

_STATUSES: Final = ("Pass", "Killed", "Failed")
# Representations of an unknown time in the log.
_MISSING: Final = (None, "", "None")


def read_philly(path: Path, assumed: Assumed) -> Workload:
    """Return the jobs of a trace, with one core for each GPU that they had.

    Raises:
        ValueError: The file cannot be read, a job is invalid, or there are no jobs.
    """
    found = Gathering(path, assumed)
    found.assume("a GPU is read as a core")
    found.assume("the attempts of a job are one run, with the cores of the largest")
    found.assume("every job is a program of its own")
    for line, job in each_element(path):
        where = f"line {line}"
        try:
            if not isinstance(job, dict):
                raise ValueError(f"a job must be a JSON object, not {job!r:.40}")
            where = f"job {_text(job, 'jobid')}"
            _add(found, job)
        except ValueError as error:
            raise ValueError(f"{path}, {shortened(f'{where}: {error}')}") from None
    return found.workload()


def _add(found: Gathering, job: Mapping[str, Any]) -> None:
    status = _text(job, "status")
    if status not in _STATUSES:
        raise ValueError(f"status must be {', '.join(_STATUSES)}, not {quoted(status)}")
    attempts = _objects(job, "attempts")
    user, submitted = _value(job, "user"), _value(job, "submitted_time")
    reason = _obstacle(attempts, submitted)
    if reason is not None:
        found.leave_out(reason)
        return
    runs = [(_seconds(attempt), _gpus(attempt)) for attempt in attempts]
    cores = max(gpus for _, gpus in runs)
    if not cores:
        found.leave_out("without GPUs")
        return
    # Times are local, so the end of daylight saving time turns them back.
    if any(seconds < 0 for seconds, _ in runs):
        found.leave_out("with an attempt that ended before it started")
        return
    work = sum(seconds * found.speedup(gpus) for seconds, gpus in runs)
    if not work:
        found.leave_out("shorter than a second")
        return
    found.add(
        time("submitted_time", submitted),
        work / found.speedup(cores),
        cores,
        name=f"job {job['jobid']}",
        user=_text(job, "user") if user not in _MISSING else UNKNOWN_USER,
        failed=status != "Pass",
    )


def _obstacle(attempts: list[Mapping[str, Any]], submitted: object) -> str | None:
    """Return why a job cannot be simulated; None if it can."""
    if submitted in _MISSING:
        return "without a submission time"
    if not attempts:
        return "without attempts"
    for key, what in (("start_time", "start"), ("end_time", "end")):
        if any(_value(attempt, key) in _MISSING for attempt in attempts):
            return f"with an attempt without {what}"
    return None


def _seconds(attempt: Mapping[str, Any]) -> float:
    start, end = (time(key, attempt[key]) for key in ("start_time", "end_time"))
    return end - start


def _gpus(attempt: Mapping[str, Any]) -> int:
    machines = _objects(attempt, "detail")
    return sum(len(_list(machine, "gpus")) for machine in machines)


def _value(found: Mapping[str, Any], key: str) -> Any:  # noqa: ANN401 - as the file has it
    if key not in found:
        raise ValueError(f"{key} is missing")
    return found[key]


def _text(found: Mapping[str, Any], key: str) -> str:
    value = _value(found, key)
    if not isinstance(value, str):
        raise ValueError(f"{key} must be a string, not {value!r:.40}")
    return value


def _list(found: Mapping[str, Any], key: str) -> list[Any]:
    value = _value(found, key)
    if not isinstance(value, list):
        raise ValueError(f"{key} must be a list, not {value!r:.40}")
    return value


def _objects(found: Mapping[str, Any], key: str) -> list[Mapping[str, Any]]:
    values = _list(found, key)
    for value in values:
        if not isinstance(value, dict):
            raise ValueError(f"{key} must be a list of JSON objects, not of {value!r:.40}")
    return values
