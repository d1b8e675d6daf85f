# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""RAPL, through the kernel's powercap: energy counters of processor packages.

The folder has a zone for each package. Zones nested in it (cores, uncore, DRAM) are parts of the
package and are never summed. `psys` is the whole platform, packages included. The same package
may be listed a second time, read through memory (intel-rapl-mmio).
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tf_malleable.linux import files
from tf_malleable.power.counter import MOST_WATTS, EnergyCounter
from tf_malleable.power.meter import Counted, MeterError, reason_of

POWERCAP: Final = Path("/sys/class/powercap")

# A top-level zone is intel-rapl:0, a nested one intel-rapl:0:0.
_ZONE = re.compile(r"(?P<driver>[a-z]+(-[a-z]+)*):(?P<number>\d+)")
# Factor by which a limit may be exceeded for a moment.
_ABOVE_LIMIT = 4.0


@dataclass(frozen=True)
class _Package:
    name: str
    path: str
    counter: EnergyCounter


class RaplMeter:
    """Meter of the processor packages of a host.

    Args:
        root: Path of the powercap folder.

    Raises:
        MeterError: There are no packages, or they may not be read.
    """

    is_whole = False

    def __init__(self, root: Path = POWERCAP) -> None:
        self._packages = _packages(root)
        if not self._packages:
            raise MeterError(f"there are no RAPL packages in {root}")
        for package in self._packages:
            _read(package.path)
        self.name = f"RAPL ({', '.join(package.name for package in self._packages)})"

    def read(self, at: float) -> Counted:
        """Return the energy of all packages since the last reading; see EnergyMeter."""
        try:
            counts = [_read(package.path) for package in self._packages]
        except MeterError:
            self.forget()
            raise
        # Every counter must get its reading, also after one that was reset.
        joules = [
            package.counter.add(counted, at)
            for package, counted in zip(self._packages, counts, strict=True)
        ]
        known = [each for each in joules if each is not None]
        return Counted(sum(known) if len(known) == len(joules) else None)

    def forget(self) -> None:
        """Count from the next reading on."""
        for package in self._packages:
            package.counter.forget()


def _packages(root: Path) -> list[_Package]:
    found: dict[str, _Package] = {}
    try:
        # Of two zones with the same name, the first counts.
        folders = sorted(root.iterdir(), key=lambda folder: ("mmio" in folder.name, folder.name))
    except OSError:
        return []
    for folder in folders:
        zone = _ZONE.fullmatch(folder.name)
        if zone is None:
            continue
        try:
            name = files.read_text(str(folder / "name")).strip()
        except OSError:
            continue
        if name.startswith("package") and name not in found:
            span = _number(folder / "max_energy_range_uj")
            found[name] = _Package(
                name, str(folder / "energy_uj"), EnergyCounter(span, _most(folder))
            )
    return list(found.values())


def _most(folder: Path) -> float:
    """Return the maximum power of a package in watts, with a margin."""
    watts = _number(folder / "constraint_0_max_power_uw") or 0.0
    return max(500.0, _ABOVE_LIMIT * watts / 1e6) if watts else MOST_WATTS


def _number(path: Path) -> float | None:
    try:
        return float(files.read_text(str(path)))
    except (OSError, ValueError):
        return None


def _read(path: str) -> float:
    try:
        return float(files.read_text(path))
    except OSError as error:
        raise MeterError(reason_of(error, path)) from None
    except ValueError:
        raise MeterError(f"{path} has no number in it") from None
