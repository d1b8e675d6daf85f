# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Four users, of whom one is hostile: what the hostile suite of every daemon begins with.

The tests of a daemon say by the marker `hostile` what the hostile user cannot do to the others:
have something `read`, `changed`, `starved` or `stopped`; tests/packaging checks that each has all.
"""

from __future__ import annotations

import grp
import os
import signal
import traceback
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.support.controllers import Controller, controller
from tests.support.users import User, become

VICTIMS = (4001, 4002, 4003)
HOSTILE = 4004
CPUS = sorted(os.sched_getaffinity(0))
SECRET = "the-token-of-somebody-else"
REFUSED = ("EACCES", "EPERM")
# What time changes, though nobody does anything.
VOLATILE = (
    "as_of",
    "reason",
    "waiting_seconds",
    "run_seconds",
    "used_cpus",
    "used_mem",
    "peak_mem",
    "lacks",
)

as_several_users = pytest.mark.skipif(
    os.geteuid() != 0, reason="only root can act as several users"
)


@dataclass(frozen=True)
class Shared:
    """A controller of one CPU; each user has a job, and the first user's job has the CPU."""

    controller: Controller
    victims: tuple[User, ...]
    jobs: tuple[str, ...]
    hostile: User

    def theirs(self) -> list[dict[str, Any]]:
        """Return the victims' jobs as root sees them, without what changes by itself."""
        jobs = self.controller.get("/v1/jobs")["jobs"]
        return [
            {name: value for name, value in each.items() if name not in VOLATILE}
            for each in jobs
            if each["id"] in self.jobs
        ]


@contextmanager
def shared(directory: Path, group: int, *more: str, **settings: Any) -> Iterator[Shared]:
    """Have four users, with a job each, at one controller."""
    name = grp.getgrgid(group).gr_name
    options = ("--policy", "equal", "--cpus", str(CPUS[0]), "--group", name, *more)
    private = {"command": ["train", SECRET], "output": f"/home/{SECRET}.log"}
    with ExitStack() as stack:
        one = stack.enter_context(controller(directory, *options, **settings))
        uids = (*VICTIMS, HOSTILE, HOSTILE)
        *victims, hostile, accomplice = (
            stack.enter_context(User(uid, group, one.socket)) for uid in uids
        )
        jobs = tuple(user.submit(name="theirs", **private) for user in victims)
        accomplice.submit(name="mine", priority=1000, weight=1000)
        here = Shared(one, tuple(victims), jobs, hostile)
        assert [each["state"] for each in here.theirs()] == ["running", "waiting", "waiting"]
        yield here


@contextmanager
def running_as(uid: int, do: Callable[[], object], group: int | None = None) -> Iterator[int]:
    """Have a function run in a process of another user; give its pid, and kill it at the end."""
    if (child := os.fork()) == 0:
        try:
            os.setsid()
            for number in (signal.SIGINT, signal.SIGTERM):
                signal.signal(number, signal.SIG_DFL)
            become(uid, uid if group is None else group)
            do()
        except BaseException:  # Also a command's exit.
            traceback.print_exc()
        finally:
            os._exit(0)
    try:
        yield child
    finally:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)


def attempts_on(pids: Iterable[int]) -> list[tuple[object, ...]]:
    """Return what the hostile user tries with processes of others; each must be refused."""
    return [
        *(
            ("signal", pid, int(number))
            for pid in pids
            for number in (signal.SIGCONT, signal.SIGSTOP, signal.SIGTERM, signal.SIGKILL)
        ),
        *(("confine", pid, CPUS[-1]) for pid in pids),
        *(("slow down", pid) for pid in pids),
        *(("read", f"/proc/{pid}/{file}") for pid in pids for file in ("environ", "mem", "maps")),
    ]


def assert_refused(hostile: User, attempts: Iterable[tuple[object, ...]]) -> None:
    """Check that the kernel refuses each of these attempts."""
    for attempt in attempts:
        what, *arguments = attempt
        assert hostile.attempt(str(what), *arguments) in REFUSED, attempt
