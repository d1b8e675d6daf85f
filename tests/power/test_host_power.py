# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""The best value there is, and what it is called, whatever the meters do."""

from __future__ import annotations

import pytest

from tf_malleable.model.power import PowerCurve
from tf_malleable.power.curve_file import read_curve, write_curve
from tf_malleable.power.host_power import HostPower, Meters, PowerClocks
from tf_malleable.power.meter import Counted, MeterError

CURVE = PowerCurve(((0.0, 50.0), (1.0, 150.0)))


class Clocks:
    """A second passes with each reading of the host, of which some may be a suspend's."""

    def __init__(self) -> None:
        self.at = 100.0
        self.slept = 0.0

    def clock(self) -> float:
        return self.at

    def wall(self) -> float:
        return self.at + self.slept


class Scripted:
    """A meter that says what a test tells it."""

    def __init__(self, *said: float | str | None, name: str = "one", whole: bool = False) -> None:
        self.said = list(said)
        self.name, self.is_whole = name, whole
        self.forgotten = 0

    def read(self, at: float) -> Counted:
        said = self.said.pop(0) if len(self.said) > 1 else self.said[0]
        if isinstance(said, str):
            raise MeterError(said)
        return Counted(said, {0: said} if self.name == "gpus" and said else {})

    def forget(self) -> None:
        self.forgotten += 1


def host(*meters: Scripted, curve: PowerCurve | None = CURVE, **more) -> tuple[HostPower, Clocks]:
    clocks = Clocks()
    times = PowerClocks(clocks.clock, clocks.wall)
    power = HostPower("lab", Meters(meters, **more), curve, clocks=times, cpus=4)
    assert power.draw(0.0) is None
    return power, clocks


def after_a_second(power: HostPower, clocks: Clocks, busy: float = 2.0):
    clocks.at += 1.0
    return power.draw(busy)


def test_a_meter_is_believed():
    energy = after_a_second(*host(Scripted(None, 120.0)))
    assert energy is not None
    assert (energy.seconds, energy.joules, energy.source) == (1.0, 120.0, "measured")


def test_a_recording_is_called_so():
    energy = after_a_second(*host(Scripted(None, 120.0), source="replayed"))
    assert energy is not None
    assert energy.source == "replayed"


def test_without_a_meter_the_curve_tells():
    energy = after_a_second(*host())
    assert energy is not None
    assert (energy.joules, energy.source) == (100.0, "estimated")


def test_without_both_nothing_is_said():
    assert after_a_second(*host(curve=None)) is None


def test_a_reset_is_bridged_by_the_curve():
    power, clocks = host(Scripted(None, None, 70.0))
    first, second = after_a_second(power, clocks), after_a_second(power, clocks)
    assert first is not None
    assert second is not None
    assert (first.source, second.source) == ("estimated", "measured")
    assert power.problem is None


def test_a_meter_that_fails_is_tried_again_later():
    power, clocks = host(Scripted(None, "x has vanished", 70.0))
    energy = after_a_second(power, clocks)
    assert energy is not None
    assert energy.source == "estimated"
    assert power.problem == "x has vanished"
    energy = after_a_second(power, clocks)
    assert energy is not None
    assert energy.source == "estimated"
    clocks.at += 30.0
    energy = power.draw(2.0)
    assert energy is not None
    assert energy.source == "measured"
    assert power.problem is None


def test_the_time_of_a_suspend_is_counted_by_nobody():
    meter = Scripted(None, 70.0)
    power, clocks = host(meter)
    clocks.slept += 3600.0
    assert after_a_second(power, clocks) is None
    assert meter.forgotten == 2
    assert after_a_second(power, clocks) is not None


def test_two_meters_that_disagree_are_told_of():
    power, clocks = host(
        Scripted(None, 200.0, name="RAPL"), Scripted(100.0, name="ACPI", whole=True)
    )
    for _ in range(5):
        energy = after_a_second(power, clocks)
    assert power.problem is None
    for _ in range(8):
        energy = after_a_second(power, clocks)
    assert power.problem == (
        "RAPL counts more for the processors than ACPI for the whole host: RAPL is used, and one"
        " of them is wrong"
    )
    assert energy is not None
    assert energy.joules == 200


def test_gpus_are_added_to_what_does_not_count_them():
    gpus = Scripted(None, 300.0, name="gpus")
    energy = after_a_second(*host(Scripted(None, 120.0), gpus=gpus))
    assert energy is not None
    assert (energy.joules, energy.gpus) == (420, {0: 300})
    gpus = Scripted(None, 300.0, name="gpus")
    energy = after_a_second(*host(Scripted(None, 520.0, whole=True), gpus=gpus))
    assert energy is not None
    assert (energy.joules, energy.gpus) == (520, {0: 300})


def test_a_curve_is_kept(tmp_path):
    path = tmp_path / "new" / "curve.json"
    assert read_curve(path) is None
    write_curve(path, CURVE, "RAPL")
    assert read_curve(path) == CURVE


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("", "has no power curve"),
        ('{"form":1,"points":[[0,50]]}', "needs points from load 0 to load 1"),
        ('{"form":2,"points":[]}', "its form is 2, not 1"),
        ('{"form":1,"points":[[0,50],[1,60]],"x":1}', "unknown field"),
    ],
)
def test_what_is_no_curve(tmp_path, text, complaint):
    (tmp_path / "curve").write_text(text)
    with pytest.raises(ValueError, match=complaint):
        read_curve(tmp_path / "curve")
