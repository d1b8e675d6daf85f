# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Files of CPU quotas, for cc/openmp/quota.cc.

Without pathlib and all else that is slow to load, as programs of tfm run wait for it; cgroup.py is
for what reads the files.
"""

from __future__ import annotations

from tf_malleable.linux.files import unescaped


def quota_files(own: str = "/proc/self") -> list[str]:
    """Return the files of the CPU quotas of this process's cgroup and its visible parents.

    A file of a cgroup whose controller is not enabled does not exist yet. In v1, the file of the
    period is beside that of the quota.

    Args:
        own: Folder with this process's "cgroup" and "mountinfo".
    """
    try:
        with open(f"{own}/cgroup", "rb") as file:
            cgroups = _lines(file.read())
        with open(f"{own}/mountinfo", "rb") as file:
            mounts = _lines(file.read())
    except OSError:
        return []
    paths: dict[str, str] = {}
    for line in cgroups:
        _, controllers, path = line.split(":", 2)
        paths.update(dict.fromkeys(controllers.split(","), path))
    found = []
    for line in mounts:
        before, _, after = line.partition(" - ")
        fields, (kind, *rest) = before.split(" "), after.split(" ")
        has_cpu = bool(rest) and "cpu" in rest[-1].split(",")
        if kind == "cgroup2" and "" in paths:
            path, name = paths[""], "cpu.max"
        elif kind == "cgroup" and has_cpu and "cpu" in paths:
            path, name = paths["cpu"], "cpu.cfs_quota_us"
        else:
            continue
        found += [f"{each}/{name}" for each in _folders(fields[3], fields[4], path)]
    return found


def _lines(text: bytes) -> list[str]:
    # Names of cgroups and folders may be anything.
    return [line for line in text.decode(errors="surrogateescape").split("\n") if line]


def _folders(root: str, point: str, path: str) -> list[str]:
    """Return the folders of a cgroup and its visible parents, as cgroup.folders()."""
    root, point = unescaped(root).rstrip("/"), unescaped(point)
    below = path[len(root) :].rstrip("/")
    if not f"{path}/".startswith(f"{root}/") or ".." in below.split("/"):
        below = ""
    found = [point + below]
    while below:
        below = below.rpartition("/")[0]
        found.append(point + below)
    return found
