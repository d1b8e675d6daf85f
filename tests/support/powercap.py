# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Folders like those of the kernel's powercap and hwmon, for machines that have none."""

from __future__ import annotations

from pathlib import Path

SPAN = 262_143_328_850
"""max_energy_range_uj of an Intel Xeon's package."""


class Powercap:
    """A powercap folder as of a server with two packages."""

    def __init__(self, root: Path, packages: int = 2, span: int = SPAN) -> None:
        self.root = root
        for number in range(packages):
            self._zone(f"intel-rapl:{number}", f"package-{number}", span)
            # Parts of the package, which are not to be counted again.
            self._zone(f"intel-rapl:{number}:0", "core", span)
            self._zone(f"intel-rapl:{number}:1", "dram", span)
        self._zone(f"intel-rapl:{packages}", "psys", span)
        # The first package again, by another way.
        self._zone("intel-rapl-mmio:0", "package-0", span)
        (root / "intel-rapl").mkdir()

    def _zone(self, zone: str, name: str, span: int) -> None:
        folder = self.root / zone
        folder.mkdir(parents=True)
        (folder / "name").write_text(f"{name}\n")
        (folder / "max_energy_range_uj").write_text(f"{span}\n")
        (folder / "energy_uj").write_text("1000000\n")

    def file(self, package: int = 0) -> Path:
        return self.root / f"intel-rapl:{package}" / "energy_uj"

    def set(self, *microjoules: float) -> None:
        """Set the counters of the packages; those of all other zones run wild."""
        packages = {self.file(package) for package in range(len(microjoules))}
        for path in {*self.root.glob("*/energy_uj")} - packages:
            path.write_text("999999999\n")
        for package, value in enumerate(microjoules):
            # A controller that reads meanwhile must not find half a number.
            beside = self.file(package).with_suffix(".new")
            beside.write_text(f"{value:.0f}\n")
            beside.replace(self.file(package))


def hwmon(root: Path, microwatts: int, name: str = "power_meter") -> Path:
    """Make a hwmon folder with one chip; return the file with its reading."""
    folder = root / "hwmon3"
    folder.mkdir(parents=True)
    (folder / "name").write_text(f"{name}\n")
    (folder / "power1_average").write_text(f"{microwatts}\n")
    return folder / "power1_average"
