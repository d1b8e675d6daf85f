# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""NVML: energy counters of NVIDIA GPUs, if nvidia-ml-py is installed."""

from __future__ import annotations

from typing import Any

from tf_malleable.power.counter import EnergyCounter
from tf_malleable.power.meter import Counted, MeterError


class NvmlMeter:
    """Meter of all GPUs of a host.

    Args:
        library: The module pynvml, or a substitute; None imports it.

    Raises:
        MeterError: There are no GPUs that count their energy.
    """

    is_whole = False

    def __init__(self, library: Any = None) -> None:  # noqa: ANN401
        self._nvml = _imported() if library is None else library
        try:
            self._nvml.nvmlInit()
            handles = [
                self._nvml.nvmlDeviceGetHandleByIndex(number)
                for number in range(self._nvml.nvmlDeviceGetCount())
            ]
            for handle in handles:
                self._nvml.nvmlDeviceGetTotalEnergyConsumption(handle)
        except self._nvml.NVMLError as error:
            raise MeterError(f"NVML cannot be used: {error}") from None
        if not handles:
            raise MeterError("NVML finds no GPUs")
        # The counters start when the driver is loaded, and do not wrap.
        self._gpus = [(handle, EnergyCounter(None)) for handle in handles]
        self.name = f"NVML ({len(handles)} GPU{'' if len(handles) == 1 else 's'})"

    def read(self, at: float) -> Counted:
        """Return the energy of all GPUs since the last reading; see EnergyMeter."""
        gpus: dict[int, float] = {}
        unknown = False
        for number, (handle, counter) in enumerate(self._gpus):
            try:
                counted = self._nvml.nvmlDeviceGetTotalEnergyConsumption(handle)
            except self._nvml.NVMLError as error:
                self.forget()
                raise MeterError(f"GPU {number} cannot be read: {error}") from None
            joules = counter.add(1000.0 * counted, at)
            unknown = unknown or joules is None
            gpus[number] = joules or 0.0
        return Counted(None) if unknown else Counted(sum(gpus.values()), gpus)

    def forget(self) -> None:
        """Count from the next reading on."""
        for _, counter in self._gpus:
            counter.forget()


def _imported() -> Any:  # noqa: ANN401
    try:
        import pynvml
    except ImportError:
        raise MeterError("nvidia-ml-py is not installed") from None
    return pynvml
