# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Weight of the CPU time of a whole session, by its autogroup.

Linux can divide CPU time among sessions first (`kernel.sched_autogroup_enabled`), and among the
threads of each session then. This holds where no cgroup of the cpu controller divides it before.
"""

from __future__ import annotations

import os
from bisect import bisect_left
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tf_malleable.linux import files
from tf_malleable.linux.cgroups import cgroup
from tf_malleable.linux.processes import procfs
from tf_malleable.model import ProcessId

# Weight of a session by its niceness, from 19 down to -20, as in the kernel (sched_prio_to_weight).
_WEIGHTS: Final = (
    *(15, 18, 23, 29, 36, 45, 56, 70, 87, 110),
    *(137, 172, 215, 272, 335, 423, 526, 655, 820, 1024),
    *(1277, 1586, 1991, 2501, 3121, 3906, 4904, 6100, 7620, 9548),
    *(11916, 14949, 18705, 23254, 29154, 36291, 46273, 56483, 71755, 88761),
)
_USUAL: Final = 1024
_LEAST_NICE: Final = 19
_ENABLED: Final = "/proc/sys/kernel/sched_autogroup_enabled"


class AutogroupError(Exception):
    """No session can have a weight here; the message is a clause that says why."""


@dataclass(frozen=True)
class SessionWeight:
    """The weight of the session of a job.

    Attributes:
        process: A process of it, while that runs.
        raises: Whether this process may set more than the usual weight.
    """

    process: ProcessId
    raises: bool

    @property
    def most(self) -> float:
        """Highest weight, as a multiple of the usual one, with the right to raise it."""
        return _WEIGHTS[-1] / _USUAL

    def weigh(self, weight: float) -> bool:
        """Set the weight, as a multiple of the usual one; return whether the kernel accepts it.

        Without the right to raise it, the usual one stands for higher ones.

        Raises:
            BlockingIOError: The kernel has been asked a tenth of a second ago; try again.
        """
        return self._set(nice_of(weight if self.raises else min(weight, 1.0)))

    def stand_back(self) -> bool:
        """Give the session the lowest weight; see weigh()."""
        return self._set(_LEAST_NICE)

    def _set(self, nice: int) -> bool:
        if not procfs.is_alive(self.process):  # Another one may have got its pid.
            return False
        try:
            files.write(f"/proc/{self.process.pid}/autogroup", str(nice))
        except BlockingIOError:
            raise
        except OSError:
            return False
        return True


def nice_of(weight: float) -> int:
    """Return the niceness of the next weight that is not lower, or of the highest one.

    Args:
        weight: Weight as a multiple of the usual one.
    """
    found = bisect_left(_WEIGHTS, round(weight * _USUAL))
    return _LEAST_NICE - min(found, len(_WEIGHTS) - 1)


def session_of(pid: int) -> int | None:
    """Return the id of a session that seems to be only there for this process.

    None if it has a terminal, whose shell has other programs in it; if the process is neither its
    leader nor a child of that; or if it is our own.
    """
    try:
        text = files.read_text(f"/proc/{pid}/stat")
        session = os.getsid(pid)
    except OSError:
        return None
    # The name, in parentheses, may contain anything.
    _, parent, _, _, terminal, *_ = text[text.rindex(")") + 2 :].split()
    if terminal != "0" or session not in (pid, int(parent)) or session == os.getsid(0):
        return None
    return session


def probe() -> bool:
    """Try in a session of its own what is possible; return whether a weight can be raised.

    Raises:
        AutogroupError: Sessions have no weight here.
    """
    try:
        enabled = files.read_text(_ENABLED).strip()
        mounts = cgroup.parse_mounts(Path("/proc/self/mountinfo").read_text(errors="replace"))
        memberships = cgroup.parse_memberships(files.read_text("/proc/self/cgroup"))
    except (OSError, ValueError):
        raise AutogroupError("this kernel has no autogroup") from None
    check_in(enabled, mounts, memberships)
    child = os.fork()
    if not child:
        code = 2
        try:
            os.setsid()
            me = procfs.identify(os.getpid())
            if me is not None and SessionWeight(me, raises=False).stand_back():
                code = 1
            if me is not None and SessionWeight(me, raises=True).weigh(2):
                code = 0
        except BlockingIOError:
            code = 1  # Only without the right to raise it is there a limit.
        finally:
            os._exit(code)
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    if code not in (0, 1):
        raise AutogroupError("the weight of a session (/proc/PID/autogroup) cannot be set")
    return code == 0


def check_in(enabled: str, mounts: tuple[cgroup.Mount, ...], memberships: dict[str, str]) -> None:
    """Check that sessions have weights.

    Args:
        enabled: Text of /proc/sys/kernel/sched_autogroup_enabled.
        mounts: Mounted cgroup hierarchies.
        memberships: Cgroups of this process by controller; see parse_memberships().

    Raises:
        AutogroupError: They have none.
    """
    if enabled != "1":
        raise AutogroupError("autogroup is off (kernel.sched_autogroup_enabled is not 1)")
    if memberships.get("cpu", "/") != "/" or any(
        (folder / "cpu.weight").exists()
        for mount in mounts
        if mount.unified and "" in memberships
        for folder in cgroup.folders(mount, memberships[""])
    ):
        raise AutogroupError("cgroups divide the CPU time before autogroup could")
