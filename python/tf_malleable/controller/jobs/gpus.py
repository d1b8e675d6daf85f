# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""GPUs that the controller shares out, numbered in PCI bus order."""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import Final

from tf_malleable.api.schema.job_request import MOST_GPUS
from tf_malleable.model.units import quoted

AUTO: Final = "auto"
_PROC: Final = Path("/proc/driver/nvidia/gpus")


def parse_gpus(text: str | None) -> tuple[int, ...]:
    """Return the GPUs of the option --gpus; none without the option.

    Raises:
        ValueError: The option is neither a number of GPUs nor ``"auto"``.
    """
    if text is None:
        return ()
    if text == AUTO:
        return tuple(range(count()))
    if not (text.isascii() and text.isdigit() and len(text) <= 4 and int(text) <= MOST_GPUS):
        raise ValueError(f"--gpus must be auto or a number up to {MOST_GPUS}, not {quoted(text)}")
    return tuple(range(int(text)))


def count() -> int:
    """Return the number of NVIDIA GPUs of this host, from NVML or else from the driver."""
    found = _count_by_nvml()
    if found is not None:
        return found
    try:
        return sum(1 for _ in _PROC.iterdir())
    except OSError:
        return 0


def _count_by_nvml() -> int | None:
    """Return the number of GPUs from NVML; None without its Python package or a driver."""
    try:
        nvml = importlib.import_module("pynvml")
        nvml.nvmlInit()
    except Exception:  # ImportError without the package; NVML's own types without a driver.
        return None
    try:
        return int(nvml.nvmlDeviceGetCount())
    except nvml.NVMLError:
        return None
    finally:
        nvml.nvmlShutdown()
