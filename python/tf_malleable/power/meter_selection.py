# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Choice of the meters of this host."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Final

from tf_malleable.api.schema.job_names import LONGEST_AREA, is_area
from tf_malleable.model.power import EnergySource
from tf_malleable.model.units import quoted
from tf_malleable.power.curve_file import read_curve
from tf_malleable.power.host_power import HostPower, Meters
from tf_malleable.power.hwmon import HWMON, HwmonMeter
from tf_malleable.power.ipmi import IpmiMeter
from tf_malleable.power.meter import EnergyMeter, MeterError
from tf_malleable.power.nvml import NvmlMeter
from tf_malleable.power.rapl import POWERCAP, RaplMeter
from tf_malleable.power.remote import NO_REMOTE, Remote

KINDS: Final = ("auto", "rapl", "hwmon", "ipmi", "replay", "estimate")


def host_power(area: str, meter: str, curve: Path, remote: Remote = NO_REMOTE) -> HostPower:
    """Return the power of this host.

    Args:
        area: Area that the host belongs to.
        meter: One of KINDS; a path after a colon selects another powercap or hwmon folder.
        curve: File of the host's power curve, which need not exist.
        remote: Remote source of budgets.

    Raises:
        ValueError: The area, the kind or the file is invalid; the message is one sentence.
    """
    if not is_area(area):
        raise ValueError(
            f"an area is names with slashes between them, at most {LONGEST_AREA} characters of"
            f" A-Z, a-z, 0-9, _, . and -, not {quoted(area)}"
        )
    meters, problem = find_meters(meter)
    gpus = None if meter == "estimate" else _gpus()
    source: EnergySource = "replayed" if meter.startswith("replay") else "measured"
    found = read_curve(curve)
    if not meters and found is None:
        problem = f"{problem or 'nothing measures'}, and without a curve nothing is estimated"
    return HostPower(area, Meters(meters, gpus, source, problem), found, remote=remote)


def find_meters(kind: str) -> tuple[list[EnergyMeter], str | None]:
    """Return the meters of a kind that work, best first, and why there is no better one.

    Raises:
        ValueError: There is no such kind.
    """
    name, _, folder = kind.partition(":")
    if name not in KINDS or (folder and name not in ("rapl", "hwmon", "replay")):
        raise ValueError(f"--meter must be one of {', '.join(KINDS)}, not {quoted(kind)}")
    if name == "replay" and not folder:
        raise ValueError("--meter replay needs a folder: replay:FOLDER")
    makers: dict[str, Callable[[], EnergyMeter]] = {
        "hwmon": lambda: HwmonMeter(Path(folder or HWMON)),
        "rapl": lambda: RaplMeter(Path(folder or POWERCAP)),
        "replay": lambda: RaplMeter(Path(folder)),
        "ipmi": IpmiMeter,
    }
    # IPMI needs a process for each reading, so it is used only on request.
    wanted = {"auto": ("hwmon", "rapl"), "estimate": ()}.get(name, (name,))
    meters: list[EnergyMeter] = []
    problem = None
    for each in wanted:
        try:
            meters.append(makers[each]())
        except MeterError as error:
            problem = str(error)
    return meters, None if meters else problem


def _gpus() -> EnergyMeter | None:
    try:
        return NvmlMeter()
    except MeterError:
        return None
