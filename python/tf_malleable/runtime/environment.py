# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Environment variables that users may set, read and checked."""

from __future__ import annotations

import os

MAX_THREADS = "TF_MALLEABLE_MAX_THREADS"
THREADS = "TF_MALLEABLE_THREADS"
# Read in preload/, by any Python.
PRELOAD = "TF_MALLEABLE_PRELOAD"
REQUIRED = "TF_MALLEABLE_REQUIRED"
FOLLOW_CGROUP = "TF_MALLEABLE_FOLLOW_CGROUP"
TF_CONFIG_THREADING = "TF_MALLEABLE_TF_CONFIG_THREADING"
OPENMP = "TF_MALLEABLE_OPENMP"
# Of tfm run for cc/openmp/quota.cc: the files of the cgroup's CPU quotas, one on each line.
QUOTAS = "TF_MALLEABLE_QUOTAS"

# PoolRegistry::kMaxThreadsCeiling in cc/limits.
CEILING = 1024


def _read_count(variable: str, highest: int | None = None) -> int | None:
    text = os.environ.get(variable, "")
    if not text:
        return None
    is_count = text.isascii() and text.isdigit() and int(text) >= 1
    if not is_count or (highest is not None and int(text) > highest):
        most = "" if highest is None else f" to {highest}"
        raise ValueError(f"{variable} must be an integer from 1{most}, not {text!r}")
    return int(text)


def max_threads() -> int:
    """Return the capacity of pools that can grow: TF_MALLEABLE_MAX_THREADS or the host's CPUs.

    Raises:
        ValueError: TF_MALLEABLE_MAX_THREADS is not an integer from 1 to 1024.
    """
    value = _read_count(MAX_THREADS, CEILING)
    if value is not None:
        return value
    # As HostCpus() in cc/limits; os.cpu_count() obeys PYTHON_CPU_COUNT.
    return min(max(os.sysconf("SC_NPROCESSORS_ONLN"), 1), CEILING)


def first_threads() -> int | None:
    """Return the first limit; None for the number of threads that TensorFlow starts with.

    It is at most the capacity, whatever TF_MALLEABLE_THREADS says.

    Raises:
        ValueError: TF_MALLEABLE_THREADS is not an integer from 1, or as max_threads().
    """
    value = _read_count(THREADS)
    return None if value is None else min(value, max_threads())


def follow_cgroup() -> bool | None:
    """Return whether limits should follow the cgroup; None if the variable is not set.

    Raises:
        ValueError: TF_MALLEABLE_FOLLOW_CGROUP is neither 0 nor 1.
    """
    return _read_switch(FOLLOW_CGROUP)


def tf_config_threading() -> bool:
    """Return whether tf.config.threading is to set and return limits after TensorFlow's start.

    Raises:
        ValueError: TF_MALLEABLE_TF_CONFIG_THREADING is neither 0 nor 1.
    """
    return _read_switch(TF_CONFIG_THREADING) is not False


def openmp() -> bool:
    """Return whether the OpenMP teams of programs are to follow their limits.

    Raises:
        ValueError: TF_MALLEABLE_OPENMP is neither 0 nor 1.
    """
    return _read_switch(OPENMP) is not False


def _read_switch(variable: str) -> bool | None:
    text = os.environ.get(variable, "")
    if text not in ("", "0", "1"):
        raise ValueError(f"{variable} must be 0 or 1, not {text!r}")
    return text == "1" if text else None
