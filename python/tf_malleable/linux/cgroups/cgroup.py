# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Cgroup files: paths and parsers, for v1, v2 and hybrid set-ups.

Containers, Kubernetes pods and systemd units are cgroups.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Final

from tf_malleable.linux import files
from tf_malleable.model.cpuset import parse_cpuset

# The kernel uses 64-bit integers.
_MOST_DIGITS: Final = 20
_CONTAINER_ID: Final = re.compile(r"(?<![0-9a-f])[0-9a-f]{64}(?![0-9a-f])")


@dataclass(frozen=True)
class Mount:
    """A mounted cgroup hierarchy.

    Attributes:
        root: Cgroup that appears at the mount point.
        point: Mount point.
        controllers: Mount options; for v1 they contain the controllers.
        unified: Whether the hierarchy is v2.
    """

    root: str
    point: Path
    controllers: frozenset[str]
    unified: bool


@dataclass(frozen=True)
class Source:
    """One or two files that limit the CPUs of a cgroup, and their parser.

    Attributes:
        paths: Paths of the files.
        parse: Function from the texts of the files to a number of CPUs; None for no limit.
        shows_in_affinity: Whether the kernel applies this limit to the CPU affinity.
    """

    paths: tuple[Path, ...]
    parse: Callable[..., float | None]
    shows_in_affinity: bool = False


# Called for every job, and nearly always with the same text.
@lru_cache(maxsize=1)
def parse_mounts(mountinfo: str) -> tuple[Mount, ...]:
    """Return the cgroup hierarchies listed in the text of /proc/PID/mountinfo."""
    mounts = []
    for line in mountinfo.split("\n"):
        before, _, after = line.partition(" - ")
        fields, (kind, *rest) = before.split(" "), after.split(" ")
        if kind not in ("cgroup", "cgroup2") or len(fields) < 5:
            continue
        mounts.append(
            Mount(
                root=files.unescaped(fields[3]),
                point=Path(files.unescaped(fields[4])),
                controllers=frozenset(rest[-1].split(",") if rest else ()),
                unified=kind == "cgroup2",
            )
        )
    return tuple(mounts)


def parse_memberships(cgroup: str) -> dict[str, str]:
    """Return the cgroup of a process by controller; the key for v2 is "".

    Args:
        cgroup: Text of /proc/PID/cgroup.

    Raises:
        ValueError: A line does not name a cgroup.
    """
    paths = {}
    for line in filter(None, cgroup.split("\n")):
        found = re.fullmatch(r"\d+:([^:]*):(/.*)", line)
        if found is None:
            raise ValueError(f"this line does not name a cgroup: {line!r:.80}")
        for controller in found[1].split(","):
            paths[controller] = found[2]
    return paths


def folders(mount: Mount, path: str) -> tuple[Path, ...]:
    """Return the folders of a cgroup and its visible parents, innermost first."""
    root = mount.root.rstrip("/")
    names = [name for name in path[len(root) :].split("/") if name]
    if f"{path}/".startswith(f"{root}/") and ".." not in names:
        return tuple(mount.point.joinpath(*names[:depth]) for depth in range(len(names), -1, -1))
    # The cgroup is outside the mount or the cgroup namespace. The mount's root is the
    # nearest visible cgroup.
    return (mount.point,)


def sources(mounts: tuple[Mount, ...], memberships: dict[str, str]) -> tuple[Source, ...]:
    """Return the files that may limit a process with these memberships."""
    found: list[Source] = []
    for mount in mounts:
        if mount.unified and "" in memberships:
            for folder in folders(mount, memberships[""]):
                found.append(Source((folder / "cpu.max",), parse_cpu_max))
                found.append(Source((folder / "cpuset.cpus.effective",), parse_size, True))
        if "cpu" in mount.controllers and "cpu" in memberships:
            for folder in folders(mount, memberships["cpu"]):
                files = (folder / "cpu.cfs_quota_us", folder / "cpu.cfs_period_us")
                found.append(Source(files, parse_cfs))
        if "cpuset" in mount.controllers and "cpuset" in memberships:
            for folder in folders(mount, memberships["cpuset"]):
                for name in ("cpuset.effective_cpus", "cpuset.cpus"):
                    found.append(Source((folder / name,), parse_size, True))
    return tuple(dict.fromkeys(found))


def parse_cpu_max(text: str) -> float | None:
    """Return the number of CPUs that cpu.max (v2) allows; None for no limit.

    Raises:
        ValueError: The text does not have the format of cpu.max.
    """
    match text.split():
        case ["max"] | ["max", _]:
            return None
        case [quota, period]:
            return _ratio(quota, period)
    raise ValueError(f"not a quota and a period: {text!r:.80}")


def parse_cfs(quota: str, period: str) -> float | None:
    """Return the number of CPUs that the CFS quota and period (v1) allow; None for no limit.

    Raises:
        ValueError: A text is not a number of microseconds.
    """
    return None if quota.strip() == "-1" else _ratio(quota.strip(), period.strip())


def _ratio(quota: str, period: str) -> float:
    return _microseconds(quota) / _microseconds(period)


def _microseconds(text: str) -> int:
    if not (text.isascii() and text.isdigit() and len(text) <= _MOST_DIGITS and int(text) > 0):
        raise ValueError(f"not a positive number of microseconds: {text!r:.80}")
    return int(text)


def parse_size(cpus: str) -> float | None:
    """Return the size of a list of CPUs such as ``0-3,8``; None for an empty list.

    Raises:
        ValueError: The text is not such a list.
    """
    return float(len(parse_cpuset(cpus))) or None


def container_ids(pid: int) -> list[str]:
    """Return the possible container ids in the cgroup names of a process.

    The format depends on engine and driver: `/docker/ID`, `docker-ID.scope`,
    `libpod-ID.scope`.
    """
    try:
        text = files.read_text(f"/proc/{pid}/cgroup")
    except OSError:
        return []
    return list(dict.fromkeys(_CONTAINER_ID.findall(text)))
