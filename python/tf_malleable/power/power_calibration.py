# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Calibration: loads this host in steps, and measures its power and load at each step."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterable
from contextlib import ExitStack

from tf_malleable.linux.host_cpu import HostCpu
from tf_malleable.model import OperationError
from tf_malleable.power.meter import EnergyMeter, MeterError

# Fraction of the time at each load that is for fans and clocks to settle.
_SETTLE = 0.2
_BEND = 0.1
# Period of the load: each process computes for a part of it, so that partial loads add up.
_PERIOD_SECONDS = 0.05
_BURNER = """
import os, sys, time
part, period = float(sys.argv[1]), float(sys.argv[2])
while os.getppid() != 1:
    begin = time.process_time()
    while time.process_time() - begin < part * period: pass
    time.sleep((1 - part) * period)
"""


def loads(steps: int) -> list[float]:
    """Return the loads to measure at: idle, a tenth, and from there evenly to full load.

    Servers draw much more as soon as any core works, so the curve bends close to idle.
    """
    if steps < 3:
        return [0.0, 1.0]
    above = [_BEND + (1 - _BEND) * number / (steps - 2) for number in range(steps - 2)]
    return [0.0, *above, 1.0]


def measure(
    meter: EnergyMeter, loads: Iterable[float], seconds: float
) -> list[tuple[float, float]]:
    """Return pairs of actual load and watts.

    Args:
        meter: Meter of the host.
        loads: Loads to try, 0 … 1.
        seconds: Seconds at each load; a fifth of them is for settling.

    Raises:
        OperationError: The meter failed.
    """
    return [_measured(meter, load, seconds) for load in loads]


def _measured(meter: EnergyMeter, load: float, seconds: float) -> tuple[float, float]:
    with ExitStack() as stack:
        if load > 0:
            for _ in range(os.cpu_count() or 1):
                stack.callback(_end, _burner(load))
        time.sleep(_SETTLE * seconds)
        cpu = HostCpu()
        begin = time.monotonic()
        total = 0.0
        try:
            meter.read(begin)
            for _ in range(max(1, round((1 - _SETTLE) * seconds))):
                time.sleep(1.0)
                joules = meter.read(time.monotonic()).joules
                if joules is None:
                    raise MeterError(f"{meter.name} was reset meanwhile")
                total += joules
        except MeterError as error:
            raise OperationError(f"cannot calibrate: {error}") from None
        passed = time.monotonic() - begin
        return min(1.0, cpu.busy_since() / passed / cpu.cpus), total / passed


def _burner(load: float) -> subprocess.Popen[bytes]:
    return subprocess.Popen([sys.executable, "-c", _BURNER, str(load), str(_PERIOD_SECONDS)])


def _end(process: subprocess.Popen[bytes]) -> None:
    process.kill()
    process.wait()
