# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""The TensorFlow releases that tf_malleable supports: the table of all builds, tools and tests."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Final

PATCHES: Final = Path(__file__).resolve().parent.parent / "patches"


@dataclass(frozen=True)
class Release:
    """The newest release of a minor version: its version, and the patch that fits its Eigen."""

    version: str
    eigen_patch: Path

    @property
    def minor(self) -> str:
        """The version without its patch number: ``"2.22"`` of ``"2.22.0rc0"``."""
        return ".".join(self.version.split(".")[:2])

    @property
    def is_candidate(self) -> bool:
        """Whether it is a release candidate, which pip installs only by its exact version."""
        return "rc" in self.version


def _read() -> tuple[Release, ...]:
    lines = (PATCHES / "tensorflow_releases.txt").read_text().splitlines()
    rows = [line.split() for line in lines if not line.startswith("#")]
    return tuple(Release(version, PATCHES / "eigen" / patch) for version, patch in rows)


# Oldest first.
RELEASES: Final = _read()
