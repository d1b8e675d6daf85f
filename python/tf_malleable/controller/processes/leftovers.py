# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Leftovers: processes of a job that have outlived its main process, for the next controller."""

from __future__ import annotations

import signal
from dataclasses import dataclass
from pathlib import Path

from tf_malleable.controller.processes import processes
from tf_malleable.linux.cgroups import job_cgroup, memory_cgroup
from tf_malleable.linux.cgroups.job_cgroup import JobGroup
from tf_malleable.linux.processes import process_marker, procfs, signals
from tf_malleable.model import ProcessId
from tf_malleable.scheduling.records.job_record import Record


@dataclass(frozen=True)
class Leftovers:
    """Processes that have outlived the main process of a job.

    Attributes:
        group: Cgroup that contains them; None if the job has none.
        processes: The processes.
        lacked_memory: True if the kernel has killed a process of the job for lack of memory.
    """

    group: JobGroup | None = None
    processes: tuple[ProcessId, ...] = ()
    lacked_memory: bool = False

    @classmethod
    def found(cls, record: Record) -> Leftovers:
        """Return the leftovers of a job whose main process has ended."""
        main = record.process
        if main is None or main.boot != procfs.boot_id():
            return cls()
        group = None if record.cgroup is None else job_cgroup.found(Path(record.cgroup), main)
        if group is not None:
            known = [procfs.identify(pid) for pid in group.pids()]
        else:
            known = [*record.leftovers, *process_marker.marked(main, record.uid)]
        memory = None if group is None else memory_cgroup.of_group(group)
        if record.memory_cgroup is not None:
            memory = memory_cgroup.made_before(Path(record.memory_cgroup))
        alive = [each for each in known if each is not None and procfs.is_alive(each)]
        lacked = memory is not None and memory.has_killed()
        return cls(group, tuple(dict.fromkeys(alive)), lacked)

    def kill(self) -> None:
        """Kill the processes."""
        if self.group is not None:
            if self.group.is_populated():  # Otherwise it would take the kernel long for nothing.
                processes.kill_group(self.group)
        else:
            signals.send(self.processes, signal.SIGKILL)
