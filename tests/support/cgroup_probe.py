# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Whether cgroups can be made on this machine, found out without the package.

A test that skipped where the package makes none would skip, too, where it is the package's fault.
"""

from __future__ import annotations

import os
import subprocess
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import NoReturn

import pytest

# What a cgroup of v2 has only where it has the controller; every one can be frozen.
_FILES = {"cpu": "cpu.weight", "cpuset": "cpuset.cpus", "memory": "memory.max"}


@cache
def can_make(controller: str) -> bool:
    """Return whether a cgroup below ours can be made and take a process.

    Args:
        controller: Its controller: "freezer" for any cgroup in which processes can be frozen.
    """
    return any(_takes_a_process(home, file) for home, file in _homes(controller))


def skip_without(controller: str) -> NoReturn:
    """Skip a test for which the package has made no cgroup; fail it if one could be made."""
    assert not can_make(controller), f"a cgroup with {controller} can be made, but none was"
    pytest.skip(f"no cgroup with {controller} can be made here")


def _homes(controller: str) -> list[tuple[Path, str]]:
    """Return our cgroups with a controller, each with a file that one below it must have."""
    own: dict[str, str] = {}
    for line in Path("/proc/self/cgroup").read_text().splitlines():
        _, controllers, path = line.split(":", 2)
        own |= dict.fromkeys(controllers.split(","), path)
    found = []
    for line in Path("/proc/self/mountinfo").read_text().splitlines():
        fields, _, rest = line.partition(" - ")
        root, point = fields.split()[3:5]
        kind, _, options = rest.split(" ", 2)
        if kind == "cgroup2":
            name, file = "", _FILES.get(controller, "cgroup.freeze")
        elif kind == "cgroup" and controller in options.split(","):
            name, file = controller, "tasks"
        else:
            continue
        path = own.get(name, "/")
        if root == "/" or f"{path}/".startswith(f"{root}/"):
            found.append((Path(point, path.removeprefix(root).lstrip("/")), file))
    return found


def _takes_a_process(home: Path, file: str) -> bool:
    folder = home / f"tfm-probe-{os.getpid()}"
    with subprocess.Popen(["sleep", "60"]) as process:
        try:
            folder.mkdir()
            (folder / "cgroup.procs").write_text(str(process.pid))
            return (folder / file).exists()
        except OSError:
            return False
        finally:
            process.kill()
            process.wait()
            with suppress(OSError):
                folder.rmdir()
