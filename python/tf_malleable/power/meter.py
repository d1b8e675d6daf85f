# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Interface of energy meters."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol


class MeterError(Exception):
    """A meter cannot be read; the message is one sentence."""


@dataclass(frozen=True)
class Counted:
    """Joules since the last reading.

    Attributes:
        joules: Energy of everything that the meter counts; None if unknown.
        gpus: Joules of each GPU, by number; included in `joules`.
    """

    joules: float | None
    gpus: Mapping[int, float] = field(default_factory=dict)


class EnergyMeter(Protocol):
    """A meter. Not thread-safe; no call takes longer than a few milliseconds."""

    @property
    def name(self) -> str:
        """Name of the meter, for people."""

    @property
    def is_whole(self) -> bool:
        """Whether the meter counts the whole host, and not only its processors or GPUs."""

    def read(self, at: float) -> Counted:
        """Return the energy since the last reading.

        Args:
            at: Time in seconds on a clock that stops during a suspend.

        Raises:
            MeterError: The meter cannot be read now.
        """

    def forget(self) -> None:
        """Count from the next reading on."""


def reason_of(error: OSError, path: str) -> str:
    """Return why a file of a meter cannot be read, as one sentence."""
    if isinstance(error, PermissionError):
        return f"may not read {path}: only root may, since CVE-2020-8694"
    if isinstance(error, FileNotFoundError):
        return f"{path} has vanished"
    return f"cannot read {path}: {error.strerror or error}"
