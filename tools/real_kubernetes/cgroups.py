# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""The cgroups below which kubelets have theirs, in all hierarchies."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from real_kubernetes.daemon import PATIENCE, ClusterError


class ClusterCgroups:
    """Cgroups with the same name in every hierarchy of version 1, and in that of version 2.

    Args:
        name: The name of a cgroup that does not exist.
        children: Names of cgroups below it, one for each node.
    """

    def __init__(self, name: str, children: list[str]) -> None:
        self._roots = {path / name: kind for path, kind in _hierarchies()}
        try:
            for root, kind in self._roots.items():
                for folder in (root, *(root / child for child in children)):
                    _make(folder, kind)
        except OSError as error:
            self.remove()
            raise ClusterError(f"no cgroup can be made: {error}") from None

    def remove(self) -> None:
        """Remove them, after their processes have ended.

        Raises:
            ClusterError: One of them is still in use after PATIENCE.
        """
        deadline = time.monotonic() + PATIENCE
        while left := [path for path in self._below() if path.exists()]:
            for path in left:
                with suppress(OSError):
                    path.rmdir()
            if time.monotonic() > deadline:
                raise ClusterError(f"the cgroup {left[0]} cannot be removed")
            time.sleep(0.02)

    def _below(self) -> Iterator[Path]:
        """Yield all of them, inner ones before outer ones."""
        for root in self._roots:
            for folder, _, _ in os.walk(root, topdown=False):
                yield Path(folder)


def _hierarchies() -> Iterator[tuple[Path, str]]:
    """Yield mount points and file systems, "cgroup" or "cgroup2"."""
    for line in Path("/proc/self/mounts").read_text().splitlines():
        _, where, kind, *_ = line.split()
        if kind in ("cgroup", "cgroup2"):
            yield Path(where), kind


def _make(folder: Path, kind: str) -> None:
    parent = folder.parent
    if kind == "cgroup2":
        controllers = (parent / "cgroup.controllers").read_text().split()
        (parent / "cgroup.subtree_control").write_text(" ".join(f"+{one}" for one in controllers))
    folder.mkdir()
    # In version 1, a new cgroup has no CPUs.
    for name in ("cpuset.mems", "cpuset.cpus"):
        if kind == "cgroup" and (parent / name).exists():
            (folder / name).write_text((parent / name).read_text())
