# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""IPMI DCMI: power of the host as read by its baseboard management controller (BMC).

One reading takes up to a second, so a thread makes them; in between, the last one is used.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import threading
from collections.abc import Sequence
from typing import Final

from tf_malleable.power.counter import WattsOverTime
from tf_malleable.power.meter import Counted, MeterError

COMMAND: Final = ("ipmitool", "dcmi", "power", "reading")

_EVERY_SECONDS = 5.0
_LONGEST_SECONDS = 10.0
_READING = re.compile(r"Instantaneous power reading:\s*(\d+(?:\.\d+)?)\s*Watts")


def watts_of(text: str) -> float:
    """Return the watts in the output of `ipmitool dcmi power reading`.

    Raises:
        MeterError: There are no watts, or the measurement is switched off.
    """
    found = _READING.search(text)
    if found is None:
        raise MeterError("ipmitool has printed no power reading")
    if re.search(r"Power reading state is:\s*deactivated", text):
        raise MeterError("the power measurement of IPMI DCMI is switched off")
    return float(found[1])


class IpmiMeter:
    """Meter of the whole host. Its thread ends with close().

    Args:
        command: Command that prints a reading.

    Raises:
        MeterError: The power cannot be read.
    """

    is_whole = True
    name = "IPMI DCMI"

    def __init__(self, command: Sequence[str] = COMMAND) -> None:
        if shutil.which(command[0]) is None:
            raise MeterError(f"{command[0]} is not installed")
        self._command = list(command)
        self._over_time = WattsOverTime()
        self._problem: str | None = None
        self._watts = self._ask()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._follow, name="ipmi", daemon=True)
        self._thread.start()

    def read(self, at: float) -> Counted:
        """Return the energy of the host since the last reading; see EnergyMeter."""
        if self._problem is not None:
            self.forget()
            raise MeterError(self._problem)
        return Counted(self._over_time.add(self._watts, at))

    def forget(self) -> None:
        """Count from the next reading on."""
        self._over_time.forget()

    def close(self) -> None:
        """Stop the readings."""
        self._stop.set()

    def _follow(self) -> None:
        while not self._stop.wait(_EVERY_SECONDS):
            try:
                self._watts, self._problem = self._ask(), None
            except MeterError as error:
                self._problem = str(error)

    def _ask(self) -> float:
        try:
            done = subprocess.run(
                self._command, capture_output=True, text=True, timeout=_LONGEST_SECONDS, check=False
            )
        except (OSError, subprocess.TimeoutExpired) as error:
            raise MeterError(f"{self._command[0]} does not answer: {error}") from None
        if done.returncode:
            said = " ".join(done.stderr.split()) or f"exit code {done.returncode}"
            raise MeterError(f"{self._command[0]} has failed: {said}")
        return watts_of(done.stdout)
