# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Alibaba's PAI trace: `pai_task_table.csv`, machine learning in 2020.

The files have no header. Times are in seconds, CPUs in percent of one. Format: "Alibaba
Cluster Trace Program: cluster-trace-gpu-v2020",
https://github.com/alibaba/clusterdata/tree/master/cluster-trace-gpu-v2020, with Weng et al.,
"MLaaS in the Wild: Workload Analysis and Scheduling in Large-Scale Heterogeneous GPU
Clusters", NSDI 2022.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from tf_malleable.model.units import quoted
from tf_malleable.simulate.engine.workload import Assumed, Workload
from tf_malleable.simulate.traces.fields import count, number, read_table
from tf_malleable.simulate.traces.trace_jobs import UNKNOWN_USER, Gathering

COLUMNS: Final = (
    *("job_name", "task_name", "inst_num", "status", "start_time", "end_time"),
    *("plan_cpu", "plan_mem", "plan_gpu", "gpu_type"),
)

_UNFINISHED: Final = {
    "Running": "still running when the trace ends",
    "Waiting": "still waiting when the trace ends",
}
STATUSES: Final = ("Terminated", "Failed", *_UNFINISHED)
_NEEDED: Final = ("inst_num", "start_time", "end_time", "plan_cpu")


def read_pai(path: Path, assumed: Assumed) -> Workload:
    """Return the tasks of a trace as jobs, on the CPUs that all their instances requested.

    Raises:
        ValueError: The file cannot be read, a line is invalid, or there are no jobs.
    """
    found = Gathering(path, assumed)
    found.assume("GPUs are not simulated, only the CPUs that tasks requested")
    found.assume("every task of a job is a job and a program of its own")
    found.assume("tasks arrive when they were launched, as the table has no submit times")
    found.assume("all jobs belong to one user")
    read_table(path, COLUMNS, lambda row: _add(found, row), headless=True)
    return found.workload()


def _add(found: Gathering, row: Mapping[str, str]) -> None:
    status = row["status"]
    if status not in STATUSES:
        raise ValueError(f"status must be {', '.join(STATUSES)}, not {quoted(status)}")
    if status in _UNFINISHED:
        found.leave_out(_UNFINISHED[status])
        return
    for column in _NEEDED:
        if not row[column]:
            found.leave_out(f"without {column}")
            return
    start, end = (number(column, row[column]) for column in ("start_time", "end_time"))
    if start < 0 or end < start:
        raise ValueError(
            "start_time must be at least 0, and end_time not before it, not"
            f" {row['start_time']} and {row['end_time']}"
        )
    if start == end:
        found.leave_out("shorter than a second")
        return
    percent = number("plan_cpu", row["plan_cpu"])
    if percent <= 0:
        raise ValueError(f"plan_cpu must be above 0 percent, not {row['plan_cpu']}")
    cores = count("inst_num", row["inst_num"], least=1) * percent / 100
    if not math.isfinite(cores):
        raise ValueError("inst_num times plan_cpu must be a number of cores")
    found.add(
        start,
        end - start,
        math.ceil(cores),
        name=f"{row['job_name']} {row['task_name']}",
        user=UNKNOWN_USER,
        failed=status == "Failed",
    )
