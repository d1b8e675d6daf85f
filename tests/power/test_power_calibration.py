# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""A calibration loads this host, and reads the meter meanwhile."""

from __future__ import annotations

import pytest

from tf_malleable.model import OperationError
from tf_malleable.power.meter import Counted, MeterError
from tf_malleable.power.power_calibration import loads, measure


class Steady:
    """A meter of a host that draws 100 W whatever it does."""

    name, is_whole = "steady", True

    def __init__(self, fails: bool = False) -> None:
        self._at: float | None = None
        self._fails = fails

    def read(self, at: float) -> Counted:
        last, self._at = self._at, at
        if self._fails and last is not None:
            raise MeterError("it has vanished")
        return Counted(None if last is None else 100.0 * (at - last))

    def forget(self) -> None:
        self._at = None


def test_loads_are_close_where_curves_bend():
    assert loads(5) == pytest.approx([0.0, 0.1, 0.4, 0.7, 1.0])
    assert loads(2) == [0.0, 1.0]
    assert loads(3) == [0.0, 0.1, 1.0]


@pytest.mark.slow
@pytest.mark.serial("loads all CPUs, and measures how busy they are")
def test_this_host_is_loaded_as_told():
    (none, idle), (full, busy) = measure(Steady(), [0.0, 1.0], 1.2)
    assert idle == pytest.approx(100, rel=0.05)
    assert busy == pytest.approx(100, rel=0.05)
    assert full > 0.8
    assert none < full


@pytest.mark.slow
def test_a_meter_that_fails_ends_it():
    with pytest.raises(OperationError, match="cannot calibrate: it has vanished"):
        measure(Steady(fails=True), [0.0], 1.0)
