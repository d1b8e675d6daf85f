# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""The conditions of a measurement: machine, versions, commit, date, CPU time of others."""

from __future__ import annotations

import os
import platform
import resource
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timezone
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import psutil

from benchmarks.common.children import REPOSITORY

_OWN = (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)
_PACKAGES = (
    *("tensorflow-cpu", "tensorflow", "keras", "numpy", "tf_malleable"),
    *("torch", "scikit-learn", "numba", "jax"),
)


@dataclass(frozen=True)
class CpuTimes:
    """Seconds all CPUs of the machine have spent, since it started."""

    total: float
    busy: float
    stolen: float
    own: float  # Of busy, ours and our ended children's.

    @staticmethod
    def now() -> CpuTimes:
        """Read the counters."""
        times = psutil.cpu_times()
        stolen = getattr(times, "steal", 0.0)
        # Time of guests is counted in user time too.
        total = sum(times) - getattr(times, "guest", 0.0) - getattr(times, "guest_nice", 0.0)
        idle = times.idle + getattr(times, "iowait", 0.0)
        usages = (resource.getrusage(who) for who in _OWN)
        own = sum(usage.ru_utime + usage.ru_stime for usage in usages)
        return CpuTimes(total, total - idle - stolen, stolen, own)


def noise(before: CpuTimes, after: CpuTimes) -> dict[str, float]:
    """Return what share of the CPU time between others took, and the host."""
    total = max(after.total - before.total, 1e-9)
    own = after.own - before.own
    return {
        "others": max(after.busy - before.busy - own, 0.0) / total,
        "stolen": (after.stolen - before.stolen) / total,
    }


def noise_text(shares: Mapping[str, float]) -> str:
    """Return noise for people, as far as it is known."""
    names = {"others": "other processes", "stolen": "the host"}
    return ", by ".join(f"{names[name]} {share:.1%}" for name, share in shares.items())


def describe() -> dict[str, Any]:
    """Return the machine, the versions, the commit and the date."""
    return {
        "date": datetime.now(timezone.utc).isoformat(timespec="seconds"),
        "machine": {
            "cpu": _cpu_model(),
            "cpus": len(os.sched_getaffinity(0)),
            "memory_bytes": psutil.virtual_memory().total,
            "kernel": platform.release(),
            "load_average": os.getloadavg(),
        },
        "versions": {"python": platform.python_version(), **_versions()},
        "commit": _git("rev-parse", "HEAD"),
        "uncommitted_changes": bool(_git("status", "--porcelain")),
    }


def _cpu_model() -> str:
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.machine()


def _versions() -> dict[str, str]:
    found = {}
    for package in _PACKAGES:
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            continue
    return found


def _git(*arguments: str) -> str | None:
    try:
        return subprocess.run(
            ["git", *arguments],
            cwd=REPOSITORY,
            capture_output=True,
            text=True,
            check=True,
        ).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        return None
