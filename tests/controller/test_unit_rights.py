# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""The controller does all its work with no more rights than the shipped unit leaves it."""

from __future__ import annotations

import grp
import os
import re
import shutil
import subprocess
import tempfile
from pathlib import Path

import pytest

from tests.support import ROOT
from tests.support.controllers import TFM, ask, wait_for
from tests.support.deadline import DEADLINE
from tests.support.unit_sandbox import CONTROLLER, kept_capabilities, sandboxed
from tests.support.users import User
from tf_malleable.linux.processes import procfs

OTHER = 54321
# From linux/capability.h.
BITS = {"CAP_CHOWN": 0, "CAP_DAC_OVERRIDE": 1, "CAP_KILL": 5, "CAP_SYS_PTRACE": 19,
        "CAP_SYS_NICE": 23}  # fmt: skip


@pytest.fixture
def folder():
    """A folder that the unit's own /tmp does not hide."""
    found = Path(tempfile.mkdtemp(prefix="tfm-unit-", dir="/run"))
    found.chmod(0o755)
    yield found
    shutil.rmtree(found)


@pytest.fixture
def unit(folder, group):
    """The socket of a controller with the unit's restrictions, and its process."""
    writable = [folder / "run", folder / "state"]
    for each in writable:
        each.mkdir(0o700)
    socket = writable[0] / "controller.sock"
    words = [TFM, "controller", "--socket", socket, "--state", writable[1] / "controller.db"]
    words += ["--group", grp.getgrgid(group).gr_name, "--policy", "equal"]
    command = sandboxed(map(str, words), [*map(str, writable)], CONTROLLER)
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    assert process.stderr is not None
    said = []
    while (line := process.stderr.readline()) and "listening at" not in line:
        said.append(line)
    assert line, "".join(said)
    yield socket, process
    process.terminate()
    process.communicate(timeout=DEADLINE)


def bits(pid: int, name: str) -> int:
    status = Path(f"/proc/{pid}/status").read_text()
    return int(re.search(rf"^{name}:\s*(\w+)$", status, re.MULTILINE)[1], 16)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can take rights away")
@pytest.mark.skipif(ROOT.is_relative_to("/tmp"), reason="the unit's own /tmp hides this checkout")
def test_the_rights_of_the_unit_suffice(unit, group):
    socket, process = unit
    wanted = sum(1 << BITS[each] for each in kept_capabilities(CONTROLLER))
    rights = ("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb", "NoNewPrivs")
    assert [bits(process.pid, name) for name in rights] == [0, wanted, wanted, wanted, 0, 1]
    with User(OTHER, group, socket) as other:
        job = f"/v1/jobs/{other.submit(command=['train'])}"
        usable = len(os.sched_getaffinity(other.pid))
        for action, is_stopped in (("pause", True), ("resume", False)):
            assert ask(socket, "POST", f"{job}/{action}")[0] == 200
            wait_for(lambda wanted=is_stopped: is_at_rest(other.pid) == wanted)
        assert ask(socket, "PUT", f"{job}/cores", {"cores": 1})[0] == 200
        wait_for(lambda: len(os.sched_getaffinity(other.pid)) == 1)
        assert usable >= 1
        assert ask(socket, "POST", f"{job}/cancel")[0] == 200
        other.process.wait(DEADLINE)


def is_at_rest(pid: int) -> bool:
    """Return whether a process is stopped by a signal, or frozen with its cgroup."""
    if procfs.read_stat(pid).state == "T":
        return True
    for line in Path(f"/proc/{pid}/cgroup").read_text().splitlines():
        for mount in ("/sys/fs/cgroup", "/sys/fs/cgroup/unified"):
            events = Path(f"{mount}{line.split(':', 2)[2]}/cgroup.events")
            if events.exists() and "frozen 1" in events.read_text():
                return True
    return False
