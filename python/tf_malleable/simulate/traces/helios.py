# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Traces of SenseTime's Helios clusters: `cluster_log.csv`, deep learning in 2020.

Format: "HeliosData", https://github.com/S-Lab-System-Group/HeliosData, with Hu et al.,
"Characterization and Prediction of Deep Learning Workloads in Large-Scale GPU Datacenters",
SC 2021.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Final

from tf_malleable.model.units import quoted
from tf_malleable.simulate.engine.workload import Assumed, Workload
from tf_malleable.simulate.traces.fields import count, number, read_table, time
from tf_malleable.simulate.traces.trace_jobs import UNKNOWN_USER, Gathering

COLUMNS: Final = (
    *("job_id", "user", "gpu_num", "cpu_num", "node_num", "state"),
    *("submit_time", "start_time", "end_time", "duration", "queue"),
)
# The virtual cluster; some copies lack it.
OPTIONAL: Final = ("vc",)

_STATES: Final = ("COMPLETED", "CANCELLED", "FAILED", "TIMEOUT", "NODE_FAIL")
# Slurm accounts whole seconds.
_WITHOUT_A_SECOND: Final = {
    "COMPLETED": "shorter than a second",
    "CANCELLED": "cancelled before they started",
}


def read_helios(path: Path, assumed: Assumed) -> Workload:
    """Return the jobs of a trace, on the CPUs that they had.

    Raises:
        ValueError: The file cannot be read, a line is invalid, or there are no jobs.
    """
    found = Gathering(path, assumed)
    found.assume("GPUs are not simulated, only the CPUs that jobs requested")
    found.assume("every job is a program of its own")
    read_table(path, COLUMNS, lambda row: _add(found, row), optional=OPTIONAL)
    return found.workload()


def _add(found: Gathering, row: Mapping[str, str]) -> None:
    state = row["state"]
    if state == "SUSPENDED":
        found.leave_out("suspended when the trace ends")
        return
    if state not in _STATES:
        raise ValueError(f"state must be {', '.join(_STATES)} or SUSPENDED, not {quoted(state)}")
    seconds = number("duration", row["duration"])
    if seconds < 0:
        raise ValueError(f"duration must be at least 0 seconds, not {row['duration']}")
    if seconds == 0:
        found.leave_out(_WITHOUT_A_SECOND.get(state, "failed before they started"))
        return
    found.add(
        time("submit_time", row["submit_time"]),
        seconds,
        count("cpu_num", row["cpu_num"], least=1),
        name=f"job {row['job_id']}",
        user=row["user"] or UNKNOWN_USER,
        failed=state != "COMPLETED",
    )
