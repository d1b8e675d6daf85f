# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Meters on folders and programs as real ones have them: this machine has none itself."""

from __future__ import annotations

import stat
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.powercap import SPAN, Powercap, hwmon
from tf_malleable.power.counter import EnergyCounter, WattsOverTime
from tf_malleable.power.hwmon import HwmonMeter
from tf_malleable.power.ipmi import IpmiMeter, watts_of
from tf_malleable.power.meter import MeterError, reason_of
from tf_malleable.power.meter_selection import find_meters, host_power
from tf_malleable.power.nvml import NvmlMeter
from tf_malleable.power.rapl import RaplMeter

# What `ipmitool dcmi power reading` prints.
DCMI = """
    Instantaneous power reading:                   220 Watts
    Minimum during sampling period:                 18 Watts
    Average power reading over sample period:      214 Watts
    IPMI timestamp:                           Tue Nov 11 10:20:31 2025
    Power reading state is:                   activated
"""


def test_packages_are_summed_and_what_is_in_them_is_not(tmp_path):
    cap = Powercap(tmp_path / "powercap")
    cap.set(1e6, 2e6)
    meter = RaplMeter(cap.root)
    assert meter.name == "RAPL (package-0, package-1)"
    assert meter.read(10.0).joules is None
    cap.set(61e6, 42e6)
    assert meter.read(11.0).joules == pytest.approx(60 + 40)


def test_a_counter_that_wraps_goes_on(tmp_path):
    cap = Powercap(tmp_path / "powercap", packages=1)
    cap.set(SPAN - 30e6)
    meter = RaplMeter(cap.root)
    meter.read(10.0)
    cap.set(20e6)
    assert meter.read(11.0).joules == pytest.approx(50)


def test_a_counter_that_was_reset_says_nothing_once(tmp_path):
    cap = Powercap(tmp_path / "powercap", packages=2)
    cap.set(5000e6, 1000e6)
    meter = RaplMeter(cap.root)
    meter.read(10.0)
    cap.set(10e6, 1050e6)
    assert meter.read(11.0).joules is None
    cap.set(70e6, 1100e6)
    assert meter.read(12.0).joules == pytest.approx(60 + 50)


def test_a_counter_that_vanishes_and_comes_back(tmp_path):
    cap = Powercap(tmp_path / "powercap", packages=1)
    meter = RaplMeter(cap.root)
    meter.read(10.0)
    cap.file().unlink()
    with pytest.raises(MeterError, match="energy_uj has vanished"):
        meter.read(11.0)
    cap.set(500e6)
    assert meter.read(12.0).joules is None
    cap.set(550e6)
    assert meter.read(13.0).joules == pytest.approx(50)


def test_what_is_not_a_number(tmp_path):
    cap = Powercap(tmp_path / "powercap", packages=1)
    cap.file().write_text("<error>\n")
    with pytest.raises(MeterError, match="has no number in it"):
        RaplMeter(cap.root)


def test_who_may_not_read_is_told_why(tmp_path):
    # Root may read everything, so the kernel is not asked.
    assert reason_of(PermissionError(13, "Permission denied"), "/x/energy_uj") == (
        "may not read /x/energy_uj: only root may, since CVE-2020-8694"
    )


def test_no_packages(tmp_path):
    with pytest.raises(MeterError, match="there are no RAPL packages"):
        RaplMeter(tmp_path / "missing")


@given(
    st.lists(st.tuples(st.floats(0, 300), st.floats(0.01, 4.4)), min_size=1, max_size=30),
    st.integers(0, 10**10),
)
def test_wraps_lose_nothing(stretches, begin):
    span = 10**10  # 10 kJ: a wrap each half minute.
    counter = EnergyCounter(span)
    counted, at, total = float(begin % span), 0.0, 0.0
    counter.add(counted, at)
    for watts, seconds in stretches:
        at += seconds
        counted = (counted + watts * seconds * 1e6) % span
        joules = counter.add(counted, at)
        assert joules is not None
        total += joules
    assert total == pytest.approx(sum(w * s for w, s in stretches), abs=1e-3)


def test_a_pause_in_which_it_may_have_wrapped_twice_is_unknown():
    counter = EnergyCounter(10**10)
    counter.add(0.0, 0.0)
    assert counter.add(5e9, 6.0) is None
    assert counter.add(5.1e9, 7.0) == pytest.approx(100)


def test_a_counter_that_grows_in_steps_loses_none():
    counter = EnergyCounter(4 * 10**9)
    counter.add(0.0, 10.0)
    assert counter.add(0.0, 10.999) == 0
    assert counter.add(11e6, 11.0) == pytest.approx(11)
    assert counter.add(22e6, 11.0) == pytest.approx(11)


def test_watts_over_time():
    watts = WattsOverTime(most_seconds=30)
    assert watts.add(100.0, 0.0) is None
    assert watts.add(200.0, 2.0) == 300
    assert watts.add(200.0, 100.0) is None
    watts.forget()
    assert watts.add(100.0, 101.0) is None


def test_hwmon(tmp_path):
    reading = hwmon(tmp_path, 150_000_000)
    meter = HwmonMeter(tmp_path)
    assert meter.is_whole
    meter.read(0.0)
    assert meter.read(2.0).joules == pytest.approx(300)
    reading.unlink()
    with pytest.raises(MeterError, match="has vanished"):
        meter.read(3.0)


def test_a_sensor_of_a_part_is_not_the_host(tmp_path):
    hwmon(tmp_path, 150_000_000, name="amdgpu")
    with pytest.raises(MeterError, match="no meter of the whole host"):
        HwmonMeter(tmp_path)


def test_what_ipmitool_prints():
    assert watts_of(DCMI) == 220
    with pytest.raises(MeterError, match="no power reading"):
        watts_of("DCMI request failed")
    with pytest.raises(MeterError, match="switched off"):
        watts_of(DCMI.replace(" activated", " deactivated"))


def script(path, text):
    path.write_text(text)
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return (str(path),)


def test_ipmi(tmp_path):
    meter = IpmiMeter(script(tmp_path / "tool", f"#!/bin/sh\ncat <<'END'\n{DCMI}END\n"))
    try:
        meter.read(0.0)
        assert meter.read(2.0).joules == 440
    finally:
        meter.close()


def test_ipmi_that_fails(tmp_path):
    with pytest.raises(MeterError, match="is not installed"):
        IpmiMeter(("no-such-tool",))
    with pytest.raises(MeterError, match="has failed: no device"):
        IpmiMeter(script(tmp_path / "tool", "#!/bin/sh\necho no device >&2\nexit 1\n"))


class Nvml:
    """As pynvml, with two GPUs."""

    class NVMLError(Exception):
        pass

    def __init__(self) -> None:
        self.millijoules = [1000.0, 5000.0]
        self.problem: Exception | None = None

    def nvmlInit(self):  # noqa: N802
        pass

    def nvmlDeviceGetCount(self):  # noqa: N802
        return len(self.millijoules)

    def nvmlDeviceGetHandleByIndex(self, number):  # noqa: N802
        return SimpleNamespace(number=number)

    def nvmlDeviceGetTotalEnergyConsumption(self, handle):  # noqa: N802
        if self.problem is not None:
            raise self.problem
        return self.millijoules[handle.number]


def test_gpus():
    nvml = Nvml()
    meter = NvmlMeter(nvml)
    assert meter.read(0.0).joules is None
    nvml.millijoules = [301_000.0, 65_000.0]
    counted = meter.read(1.0)
    assert (counted.joules, counted.gpus) == (360, {0: 300, 1: 60})
    nvml.problem = nvml.NVMLError("GPU is lost")
    with pytest.raises(MeterError, match="GPU 0 cannot be read: GPU is lost"):
        meter.read(2.0)


def test_no_gpus():
    nvml = Nvml()
    nvml.problem = nvml.NVMLError("Not Supported")
    with pytest.raises(MeterError, match="NVML cannot be used: Not Supported"):
        NvmlMeter(nvml)


@pytest.mark.parametrize("kind", ["solar", "auto:/x", "replay", ""])
def test_there_is_no_such_kind_of_meter(kind):
    with pytest.raises(ValueError, match="--meter"):
        find_meters(kind)


@pytest.mark.parametrize("area", ["", "/x", "x/", "a b", "a//b", "x" * 200, "a/#", "+"])
def test_what_is_no_area(area, tmp_path):
    with pytest.raises(ValueError, match="an area is names"):
        host_power(area, "estimate", tmp_path / "none")


def test_a_host_without_meters_and_curve_says_so(tmp_path):
    power = host_power("lab", f"rapl:{tmp_path}", tmp_path / "none")
    assert power.meter is None
    assert "there are no RAPL packages" in (power.problem or "")
    assert "nothing is estimated" in (power.problem or "")
