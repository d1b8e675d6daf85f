# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Processes of a job, and signals to all of them, however fast the job forks.

A job with a cgroup is frozen in the meantime, so no new processes appear. Without a cgroup,
the processes are read again until there are no new ones; a process whose parent has ended
is found only if an earlier survey has seen it.
"""

from __future__ import annotations

import signal
import time
from collections.abc import Collection, Iterable, Sequence

from tf_malleable.controller.jobs.live_job import LiveJob
from tf_malleable.linux.cgroups import memory_cgroup
from tf_malleable.linux.cgroups.job_cgroup import JobGroup
from tf_malleable.linux.processes import procfs, signals
from tf_malleable.linux.processes.process_table import ProcessTable
from tf_malleable.model import ProcessId

# A program that forks faster than its processes are read must not block the controller for
# ever; the next survey continues.
_ROUND_SECONDS = 0.05
_MOST_COMMANDS = 20


def stop_all(live: LiveJob) -> None:
    """Stop all processes of a job that is not a container, with SIGSTOP."""
    if live.processes.group is not None:
        _send_to_group(live, [signal.SIGSTOP])
        return
    seen: set[int] = set()
    deadline = time.monotonic() + _ROUND_SECONDS
    while new := [pid for pid in live.processes.tree if pid not in seen]:
        signals.send(live.processes.identities(live.record.process, new), signal.SIGSTOP)
        seen.update(new)
        if time.monotonic() > deadline:
            return
        refresh(live)


def send_to_all(
    live: LiveJob, numbers: Sequence[signal.Signals], *, but: Collection[ProcessId] = ()
) -> None:
    """Send signals, in this order, to all processes of a job that is not a container.

    Args:
        live: The job.
        numbers: The signals.
        but: Processes that are sent none.
    """
    if live.processes.group is not None:
        _send_to_group(live, numbers, but)
        return
    refresh(live)
    _send(live, numbers, but)


def _send(live: LiveJob, numbers: Sequence[signal.Signals], but: Collection[ProcessId]) -> None:
    wanted = [each for each in live.processes.identities(live.record.process) if each not in but]
    for number in numbers:
        signals.send(wanted, number)


def kill_all(live: LiveJob) -> None:
    """Kill all processes of a job that is not a container."""
    if live.processes.group is not None:
        kill_group(live.processes.group)
        return
    # Stop all first, so that none forks while others are being killed.
    stop_all(live)
    signals.send(live.processes.identities(live.record.process), signal.SIGKILL)


def kill_group(group: JobGroup) -> None:
    """Kill all processes of a cgroup."""
    if not group.kill():
        with group.frozen():
            starts = _starts(group.pids())
            signals.send(
                [ProcessId(pid, start, procfs.boot_id()) for pid, start in starts.items()],
                signal.SIGKILL,
            )


def terminate_main(live: LiveJob) -> None:
    """Send SIGTERM to the main process of a job; let all processes run that were stopped."""
    if (main := live.record.process) is not None:
        live.note_told([main])
        signals.send([main], signal.SIGTERM)
    send_to_all(live, [signal.SIGCONT])


def terminate_rest(live: LiveJob) -> None:
    """Send SIGTERM to all processes of a job that were not sent it, and let them run."""
    send_to_all(live, [signal.SIGTERM, signal.SIGCONT], but=live.told)
    live.note_told(live.processes.identities(live.record.process))


def remain(live: LiveJob) -> bool:
    """Return whether a job whose main process has ended has other processes, as far as known."""
    if live.processes.group is not None:
        return live.processes.group.is_populated()
    return any(map(procfs.is_alive, _others(live)))


def remaining(live: LiveJob) -> list[int]:
    """Return the pids of the processes of a job other than its main process, which has ended."""
    if live.processes.group is not None:
        # Even without processes, killing can take the kernel tens of milliseconds.
        pids = live.processes.group.pids()
        return [
            pid for pid in pids if live.record.process is None or pid != live.record.process.pid
        ]
    # Reading all processes at each end would be too expensive.
    return [each.pid for each in _others(live) if procfs.is_alive(each)]


def _others(live: LiveJob) -> list[ProcessId]:
    return [p for p in live.processes.identities(live.record.process) if p != live.record.process]


def lacked_memory(live: LiveJob) -> bool:
    """Return whether the kernel has killed a process of a job for lack of memory."""
    group = live.processes.memory_group
    if group is None and live.processes.group is not None:
        group = memory_cgroup.of_group(live.processes.group)
    return group is not None and group.has_killed()


def are_stopped(live: LiveJob) -> bool:
    """Return whether the main process of a job is stopped, or all others if it has ended."""
    main = live.record.process
    pids = [main.pid] if main and live.record.main_ended is None else live.processes.tree
    states = [stat.state for pid in pids if (stat := procfs.read_stat(pid)) is not None]
    return bool(states) and all(state == "T" for state in states)


def _send_to_group(
    live: LiveJob, numbers: Sequence[signal.Signals], but: Collection[ProcessId] = ()
) -> None:
    assert live.processes.group is not None
    with live.processes.group.frozen():
        pids = live.processes.group.pids()
        live.processes.note_tree(_main_first(live, pids), _starts(pids))
        _send(live, numbers, but)


def refresh(live: LiveJob) -> None:
    """Read the processes of a job again."""
    if live.record.process is not None:
        note(live, ProcessTable() if live.processes.group is not None else ProcessTable.now())


def note(live: LiveJob, table: ProcessTable, members: list[int] | None = None) -> bool:
    """Record a job's processes; return whether they have changed.

    Processes of an earlier survey that still run remain part of the job, even if their parent
    has ended, and so do their children.

    Args:
        live: Job with a main process that is not a container.
        table: All processes; not used for a job with a cgroup.
        members: Pids in the job's cgroup in ascending order, or the process tree of its main
            process; None if these have not been read.
    """
    main = live.record.process
    assert main is not None
    if live.processes.group is not None:
        members = live.processes.group.pids() if members is None else members
        return live.processes.note_tree(_main_first(live, members))
    tree: list[int] = []
    # Once the main process has ended, another process may have its pid.
    if table.starts.get(main.pid) == main.start:
        tree = table.tree(main.pid) if members is None else members
    known = set(tree)
    for pid in sorted(set(live.processes.tree) - known):
        if pid in table.starts and table.starts[pid] == live.processes.starts.get(pid):
            orphans = [each for each in table.tree(pid) if each not in known]
            tree += orphans
            known.update(orphans)
    return live.processes.note_tree(tree, table.starts)


def present(live: LiveJob, pids: Iterable[int]) -> list[int]:
    """Return those of these pids that still belong to a process of the job."""
    if live.processes.group is not None:
        members = set(live.processes.group.pids())
        return [pid for pid in pids if pid in members]
    return [
        process.pid
        for process in live.processes.identities(live.record.process, pids)
        if procfs.is_alive(process)
    ]


def commands(pids: Sequence[int]) -> tuple[str, ...]:
    """Return pid and command of the first 20 of these processes, for people."""
    return tuple(f"{pid} ({procfs.command(pid)})" for pid in pids[:_MOST_COMMANDS])


def _main_first(live: LiveJob, pids: list[int]) -> list[int]:
    main = live.record.process and live.record.process.pid
    if main is None or main not in pids:
        return pids
    return [main, *(pid for pid in pids if pid != main)]


def _starts(pids: Iterable[int]) -> dict[int, int]:
    found = {}
    for pid in pids:
        read = procfs.read_parent(pid)
        if read is not None:
            found[pid] = read[1]
    return found
