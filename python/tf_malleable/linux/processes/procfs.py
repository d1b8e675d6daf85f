# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Processes from /proc: CPU time, state, parents and children.

The controller is not the parent of its jobs. Rarely, it reads all processes to find out which
belong together; often, it reads only those of running jobs.
"""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Iterable, Iterator
from contextlib import suppress
from functools import cache

from tf_malleable.linux import files
from tf_malleable.model.process import ProcessId
from tf_malleable.quick_dataclass import dataclass

_TICKS_PER_SECOND = os.sysconf("SC_CLK_TCK")
# In bytes: 52 numbers of at most 20 digits, and a name.
_LONGEST_STAT = 4096
# In bytes, up to the state: a number, and a name of at most 64 bytes.
_UP_TO_STATE = 128
# In bytes; enough to recognize a program.
_LONGEST_COMMAND = 80
# In bytes; enough for many more children than a worker has.
_LONGEST_CHILDREN = 1 << 16


@dataclass(frozen=True)
class Stat:
    """One process, from /proc/PID/stat.

    Attributes:
        parent: Pid of the parent.
        state: One letter; T is stopped, Z is a zombie.
        start: Start time, in clock ticks since boot.
        cpu_seconds: CPU time in seconds of all threads and of the children that the process
            has waited for.
        exit_status: Status as from wait(); valid in state Z only.
    """

    parent: int
    state: str
    start: int
    cpu_seconds: float
    exit_status: int


def read_stat(pid: int) -> Stat | None:
    """Return /proc/PID/stat of a process; None if there is no such process."""
    return stat_in(f"/proc/{pid}/stat")


def stat_in(path: str) -> Stat | None:
    """Return what a stat file of /proc contains; None if there is no such process."""
    fields = _stat_fields(path)
    if fields is None:
        return None
    return Stat(
        parent=int(fields[1]),
        state=fields[0].decode(),
        start=int(fields[19]),
        cpu_seconds=sum(map(int, fields[11:15])) / _TICKS_PER_SECOND,
        exit_status=int(fields[49]),
    )


def _stat_fields(path: str) -> list[bytes] | None:
    """Return the fields after the process's name; None if there is no such process."""
    try:
        text = files.read(path, _LONGEST_STAT)
    except OSError:
        return None
    # The name, in parentheses, may contain anything, even parentheses.
    return text[text.rindex(b")") + 2 :].split()


def _state(path: str) -> bytes | None:
    """Return the third field of a stat file without parsing the others; None if unreadable."""
    try:
        text = files.read(path, _UP_TO_STATE)
    except OSError:
        return None
    state = text.rindex(b")") + 2
    return text[state : state + 1]


@cache
def boot_id() -> str:
    """Return the kernel's id of the current boot."""
    return files.read_text("/proc/sys/kernel/random/boot_id").strip()


def identify(pid: int) -> ProcessId | None:
    """Return the identity of the process that now has this pid; None if there is none."""
    stat = read_stat(pid)
    return None if stat is None else ProcessId(pid, stat.start, boot_id())


def is_alive(process: ProcessId) -> bool:
    """Return whether this very process still runs, not another one with the same pid."""
    stat = read_stat(process.pid)
    return (
        stat is not None
        and stat.state not in "ZX"
        and stat.start == process.start
        and boot_id() == process.boot
    )


def read_parent(pid: int) -> tuple[int, int] | None:
    """Return the parent and the start time of a process; None if there is no such process."""
    fields = _stat_fields(f"/proc/{pid}/stat")
    return None if fields is None else (int(fields[1]), int(fields[19]))


def command(pid: int) -> str:
    """Return the command of a process, shortened, without control characters.

    The name of the program stands for an empty or unreadable command.
    """
    for path, separator in ((f"/proc/{pid}/cmdline", "\0"), (f"/proc/{pid}/comm", "\n")):
        with suppress(OSError):
            words = files.read_text(path, _LONGEST_COMMAND).split(separator)
            if text := " ".join(words).strip():
                return "".join(each if each.isprintable() else "?" for each in text)
    return "?"


def has_children(pid: int) -> bool:
    """Return whether a process has children; True if the kernel does not report it."""
    try:
        for thread in os.listdir(f"/proc/{pid}/task"):
            if files.read(f"/proc/{pid}/task/{thread}/children", 1):
                return True
    except OSError:
        return True
    return False


def ancestors(pid: int) -> Iterator[int]:
    """Yield a process, its parent, and so on up to the host's first process."""
    while pid > 0:
        yield pid
        found = read_parent(pid)
        pid = 0 if found is None else found[0]


def descendants(root: int) -> list[int]:
    """Return a process and all its descendants, without reading all other processes.

    Children of a process that ends meanwhile may be missing.
    """
    found = [root]
    for pid in found:  # The list grows during the loop.
        with suppress(OSError):  # It has ended.
            for thread in os.listdir(f"/proc/{pid}/task"):
                text = files.read(f"/proc/{pid}/task/{thread}/children", _LONGEST_CHILDREN)
                found.extend(map(int, text.split()))
    return found


def trees(roots: Iterable[int]) -> dict[int, list[int]]:
    """Return each of these processes with all its descendants, by root."""
    children: defaultdict[int, list[int]] = defaultdict(list)
    for name in os.listdir("/proc"):
        if name.isdigit():
            fields = _stat_fields(f"/proc/{name}/stat")
            if fields is not None:
                children[int(fields[1])].append(int(name))
    found = {}
    for root in roots:
        tree = [root]
        for pid in tree:  # The list grows during the loop.
            tree.extend(children.get(pid, ()))
        found[root] = tree
    return found


def runnable(pids: Iterable[int]) -> int:
    """Return the number of threads of these processes that run or wait for a CPU."""
    count = 0
    for pid in pids:
        with suppress(OSError):  # It has ended.
            for thread in os.listdir(f"/proc/{pid}/task"):
                count += _state(f"/proc/{pid}/task/{thread}/stat") == b"R"
    return count


def queued(pids: Iterable[int]) -> dict[int, tuple[float, bool]]:
    """Return the run delay of each thread of these processes, and whether it is runnable.

    The result is keyed by thread id. The run delay is the time in seconds that the thread has
    been runnable without running since its creation, up to when it last got a CPU; 0 on a
    kernel that does not report it.
    """
    threads = {}
    for pid in pids:
        with suppress(OSError):  # It has ended.
            for thread in os.listdir(f"/proc/{pid}/task"):
                fields = _stat_fields(f"/proc/{pid}/task/{thread}/stat")
                if fields is not None:
                    delay = _run_delay(f"/proc/{pid}/task/{thread}/schedstat")
                    threads[int(thread)] = (delay, fields[0] == b"R")
    return threads


def _run_delay(path: str) -> float:
    """Return the second number of a schedstat file, in seconds; 0 if it is missing."""
    try:
        return int(files.read(path).split()[1]) / 1e9
    except (OSError, IndexError):
        return 0.0
