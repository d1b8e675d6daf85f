# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Scopes of systemd: with cgroup v2, cgroups of jobs that can have a weight of CPU time.

A job comes from a cgroup that has other processes, as that of a login session, below which Linux
weighs no cgroup. So systemd is asked for one in the same slice, whose limits go on to hold. Root
asks the manager of the host, a user its own one. systemd removes the scope once it is empty, and
stops it when it stops the unit that the job comes from.
"""

from __future__ import annotations

import os
import pwd
import re
import subprocess
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Final, Literal

from tf_malleable.linux import files
from tf_malleable.linux.cgroups import cgroup, job_cgroup
from tf_malleable.linux.cgroups.cpu_cgroup import CpuGroup
from tf_malleable.linux.cgroups.job_cgroup import JobGroup
from tf_malleable.linux.processes import procfs
from tf_malleable.model import ProcessId

_BOOTED: Final = Path("/run/systemd/system")
_LINGER: Final = Path("/var/lib/systemd/linger")
_SLICES: Final = r"(?:/[\w:.\\@-]+\.slice)+"
_NO_LINGER: Final = "is a login session of a user who does not linger (loginctl)"
# What a scope says that limits nothing; a job must not escape a limit.
_UNLIMITED: Final = {
    "cpu.max": "max 100000",
    "cpu.weight": "100",
    "cpu.idle": "0",
    "cpuset.cpus": "",
    "io.max": "",
    "io.weight": "default 100",
    "memory.high": "max",
    "memory.max": "max",
    "memory.swap.max": "max",
}
_CALL: Final = (
    "org.freedesktop.systemd1",
    "/org/freedesktop/systemd1",
    "org.freedesktop.systemd1.Manager",
    "StartTransientUnit",
    "ssa(sv)a(sa(sv))",
)
_SECONDS: Final = 2
_POLL_SECONDS: Final = 0.002


class ScopeError(Exception):
    """systemd can make no scope; the message is a clause that says why."""


@dataclass(frozen=True)
class ScopePlace:
    """Where systemd is to make a scope.

    Attributes:
        manager: Which systemd, as an option of busctl.
        parent: Cgroup of the slice that is to have the scope.
        part_of: Unit with which the scope is to be stopped; None for none.
    """

    manager: Literal["--system", "--user"]
    parent: str
    part_of: str | None = None


def place(path: str, uid: int, *, lingers: bool) -> ScopePlace:
    """Return where the scope of a job can be.

    Args:
        path: Cgroup that the job comes from.
        uid: User that asks systemd.
        lingers: Whether this user's own systemd outlives his sessions.

    Raises:
        ScopeError: Nowhere.
    """
    own = _manager(uid)
    session = re.fullmatch(rf"(/user\.slice{_SLICES})/(session-[^/]+\.scope)", path)
    if session and uid == 0:
        return ScopePlace("--system", session[1], session[2])
    if session and path.startswith(f"{own.rpartition('/')[0]}/"):
        if not lingers:
            raise ScopeError(f"{path} {_NO_LINGER}")
        return ScopePlace("--user", f"{own}/app.slice")
    if uid != 0 and (found := re.fullmatch(rf"({own}{_SLICES})/([^/]+\.scope)", path)):
        return ScopePlace("--user", found[1], found[2])
    raise ScopeError(f"{path} is not the scope of a login session")


def manages() -> bool:
    """Return whether systemd is the manager of a hierarchy of v2 with the cpu controller."""
    return _mount() is not None


class Scopes:
    """The scopes that systemd has made for jobs. Thread-safe."""

    def __init__(self) -> None:
        self._stand_ins: list[subprocess.Popen[bytes]] = []

    def make(self, process: ProcessId) -> JobGroup:
        """Make the cgroup of a job in a scope of its own; it takes tens of milliseconds.

        Args:
            process: Main process of the job.

        Returns:
            The cgroup, with the process and all its descendants.

        Raises:
            ScopeError: There can be none.
        """
        mount = _mount()
        path = _path(process.pid)
        if mount is None or not procfs.is_alive(process):
            raise ScopeError("systemd has no cgroup for it")
        where = place(path, os.geteuid(), lingers=_lingers())
        home = cgroup.folders(mount, path)[0]
        if cgroup.container_ids(process.pid) or _is_limited(home):
            raise ScopeError(f"{path} is a container or has limits, which are to hold")
        name = f"{job_cgroup.name(process)}.scope"
        folder = cgroup.folders(mount, where.parent)[0] / name
        if where.manager == "--user":
            _start(where, name, procfs.trees([process.pid])[process.pid])
            group = _moved(folder, process)
        else:
            group = self._exchanged(process, home, folder, where)
        self._outlast(process, folder)
        # Only now, as there are no processes beside the cgroups in it.
        files.try_write(f"{folder}/cgroup.subtree_control", "+memory")
        return group

    def _exchanged(
        self, process: ProcessId, home: Path, folder: Path, where: ScopePlace
    ) -> JobGroup:
        """Have systemd move a process of ours, and have that and the job change places.

        So systemd moves no process whose pid another one may have got. And the session stays as
        long as the job does: without processes, it would be over for systemd-logind, which then
        removes what its user has in /dev/shm (RemoveIPC=) and /run/user.
        """
        with self._stand_in(process) as pid:
            _start(where, folder.name, [pid])
            group = _moved(folder, process)
            files.try_write(f"{home}/cgroup.procs", str(pid))
        return group

    def _outlast(self, process: ProcessId, folder: Path) -> None:
        """Have the scope outlast the job by up to five seconds.

        systemd removes it at once when it is empty, and with it what tells that memory ran out.
        """
        with suppress(OSError), self._stand_in(process) as pid:
            last = folder / "tfm-last"
            last.mkdir()
            files.write(f"{last}/cgroup.procs", str(pid))

    @contextmanager
    def _stand_in(self, process: ProcessId) -> Iterator[int]:
        """Start a process that ends up to five seconds after another; kill it on an error."""
        for each in [*self._stand_ins]:
            if each.poll() is not None:
                with suppress(ValueError):  # Another thread has done so.
                    self._stand_ins.remove(each)
        stand_in = _process(
            "tail", f"--pid={process.pid}", "--sleep-interval=5", "--follow", "/dev/null"
        )
        try:
            yield stand_in.pid
        except BaseException:
            stand_in.kill()
            stand_in.wait()
            raise
        self._stand_ins.append(stand_in)


def probe() -> bool:
    """Have systemd make a scope for a process of ours, which then ends.

    Returns:
        Whether the scope can be in the idle class.

    Raises:
        ScopeError: It can make none, or none that has a weight.
    """
    mount = _mount()
    if mount is None:
        raise ScopeError("systemd does not manage the cgroups")
    uid = os.geteuid()
    path = _path(os.getpid())
    if uid == 0:
        slices = re.match(_SLICES, path)
        where = ScopePlace("--system", slices[0] if slices else "/system.slice")
    elif path.startswith(f"{_manager(uid)}/") or _lingers():
        where = ScopePlace("--user", f"{_manager(uid)}/app.slice")
    else:  # Its jobs are likely to come from there, too.
        raise ScopeError(f"{path} {_NO_LINGER}")
    child = _process("sleep", "60")
    try:
        name = f"tfm-probe-{child.pid}.scope"
        _start(where, name, [child.pid])
        folder = cgroup.folders(mount, where.parent)[0] / name
        group = CpuGroup(folder, unified=True)
        if not group.weigh(1):
            raise ScopeError(f"no weight can be set in {folder}")
        return group.has_idle()
    finally:
        child.kill()
        child.wait()


def _manager(uid: int) -> str:
    """Return the cgroup of a user's own systemd."""
    return f"/user.slice/user-{uid}.slice/user@{uid}.service"


def _start(where: ScopePlace, name: str, pids: Sequence[int]) -> None:
    """Have systemd make a scope with these processes, and wait until it has moved the first one."""
    properties = [
        ("Description", "s", "Job of tf_malleable"),
        ("Slice", "s", where.parent.rpartition("/")[2]),
        ("PIDs", "au", str(len(pids)), *map(str, pids)),
        ("DelegateControllers", "as", "2", "cpu", "memory"),
    ]
    if where.part_of is not None:
        properties.append(("PartOf", "as", "1", where.part_of))
    command = ["busctl", where.manager, "--quiet", f"--timeout={_SECONDS}", "call", *_CALL, name]
    command += ["fail", str(len(properties)), *chain.from_iterable(properties), "0"]
    try:
        done = subprocess.run(command, capture_output=True, timeout=2 * _SECONDS, check=False)
    except OSError as error:
        raise ScopeError(f"busctl cannot be started: {error.strerror}") from None
    except subprocess.TimeoutExpired:
        raise ScopeError(f"systemd has not answered within {2 * _SECONDS} s") from None
    if done.returncode:
        said = " ".join(done.stderr.decode(errors="replace").split())
        raise ScopeError(f"systemd refuses: {said}")
    deadline = time.monotonic() + _SECONDS
    while not _path(pids[0]).endswith(f"/{name}"):
        if time.monotonic() > deadline:
            raise ScopeError(f"systemd has not made {name} within {_SECONDS} s")
        time.sleep(_POLL_SECONDS)


def _process(*command: str) -> subprocess.Popen[bytes]:
    """Start a process in the background, which no terminal and no output of ours concerns.

    Raises:
        ScopeError: It cannot be started.
    """
    silent = subprocess.DEVNULL
    try:
        return subprocess.Popen(
            command, cwd="/", stdin=silent, stdout=silent, stderr=silent, start_new_session=True
        )
    except OSError as error:
        raise ScopeError(f"{command[0]} cannot be started: {error.strerror}") from None


def _moved(folder: Path, process: ProcessId) -> JobGroup:
    group = job_cgroup.make_below(folder, process, unified=True)
    if group is None:
        raise ScopeError(f"the kernel does not let it move to {folder}")
    return group


def _mount() -> cgroup.Mount | None:
    if not _BOOTED.is_dir():
        return None
    with suppress(OSError):
        for mount in cgroup.parse_mounts(Path("/proc/self/mountinfo").read_text(errors="replace")):
            controllers = mount.point / "cgroup.controllers"
            if mount.unified and mount.root == "/" and "cpu" in controllers.read_text().split():
                return mount
    return None


def _path(pid: int) -> str:
    """Return the cgroup of a process in the hierarchy of v2.

    Raises:
        ScopeError: It has ended.
    """
    try:
        return cgroup.parse_memberships(files.read_text(f"/proc/{pid}/cgroup"))[""]
    except (OSError, ValueError, KeyError):
        raise ScopeError("it has ended") from None


def _lingers() -> bool:
    try:
        return (_LINGER / pwd.getpwuid(os.geteuid()).pw_name).exists()
    except KeyError:
        return False


def _is_limited(folder: Path) -> bool:
    for name, unlimited in _UNLIMITED.items():
        with suppress(OSError):
            if files.read_text(f"{folder}/{name}").strip() != unlimited:
                return True
    return False
