# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""hwmon: power sensors of the whole host only, such as ACPI's power meter."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from tf_malleable.linux import files
from tf_malleable.power.counter import WattsOverTime
from tf_malleable.power.meter import Counted, MeterError, reason_of

HWMON: Final = Path("/sys/class/hwmon")

_WHOLE_HOST = ("power_meter",)
# power1_average refers to an interval that the hardware chooses; not all drivers have it.
_FILES = ("power1_average", "power1_input")


class HwmonMeter:
    """Meter of the whole host.

    Args:
        root: Path of the hwmon folder.
        chips: Names of drivers whose first sensor measures the whole host.

    Raises:
        MeterError: There is no such sensor, or it may not be read.
    """

    is_whole = True

    def __init__(self, root: Path = HWMON, chips: tuple[str, ...] = _WHOLE_HOST) -> None:
        self._path = _sensor(root, chips)
        self._watts = WattsOverTime()
        self.name = f"hwmon ({self._path.parent.name}/{self._path.name})"
        self._read()

    def read(self, at: float) -> Counted:
        """Return the energy of the host since the last reading; see EnergyMeter."""
        try:
            return Counted(self._watts.add(self._read(), at))
        except MeterError:
            self.forget()
            raise

    def forget(self) -> None:
        """Count from the next reading on."""
        self._watts.forget()

    def _read(self) -> float:
        try:
            return float(files.read_text(str(self._path))) / 1e6
        except OSError as error:
            raise MeterError(reason_of(error, str(self._path))) from None
        except ValueError:
            raise MeterError(f"{self._path} has no number in it") from None


def _sensor(root: Path, chips: tuple[str, ...]) -> Path:
    try:
        folders = sorted(root.iterdir())
    except OSError:
        folders = []
    for folder in folders:
        try:
            name = files.read_text(str(folder / "name")).strip()
        except OSError:
            continue
        for file in _FILES:
            if name in chips and (folder / file).exists():
                return folder / file
    raise MeterError(f"there is no meter of the whole host in {root}")
