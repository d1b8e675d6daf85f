# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Two controllers, a broker and tfm power organise, all of them real processes."""

from __future__ import annotations

import json
import signal
import threading
from contextlib import ExitStack, contextmanager

import pytest

from tests.support.brokers import MOSQUITTO, Mosquitto
from tests.support.commands import started
from tests.support.controllers import controller, wait_for
from tests.support.deadline import DEADLINE
from tests.support.powercap import Powercap
from tf_malleable.linux.host_cpu import HostCpu
from tf_malleable.model import PowerCurve
from tf_malleable.power.curve_file import write_curve
from tf_malleable.scheduling.energy.water_fill import PowerHost, water_fill

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(MOSQUITTO is None, reason="apt-get install mosquitto"),
]

CURVES = {
    "faculty/lab/ada": PowerCurve(((0.0, 50.0), (0.5, 70.0), (1.0, 150.0))),
    "faculty/office/bob": PowerCurve(((0.0, 60.0), (1.0, 120.0))),
}


class Organisation:
    """A broker, and folders for units."""

    def __init__(self, folder):
        self.folder = folder
        self.broker = Mosquitto(folder)

    def _described(self, name):
        path = self.folder / f"{name}.json"
        path.write_text(json.dumps({"host": "127.0.0.1", "port": self.broker.port, "unit": name}))
        return path

    @contextmanager
    def unit(self, name):
        area, _, host = name.rpartition("/")
        folder = self.folder / host
        if not folder.exists():
            Powercap(folder / "powercap")
            write_curve(folder / "curve.json", CURVES[name], "")
        with controller(
            folder,
            f"--area={area}",
            f"--meter=replay:{folder / 'powercap'}",
            f"--power-curve={folder / 'curve.json'}",
            f"--budgets-from={self._described(host)}",
        ) as running:
            yield running

    def organiser(self, watts, *options):
        broker = str(self._described("organiser"))
        return started("power", "organise", "faculty", str(watts), *options, "--broker", broker)


@pytest.fixture
def organisation(tmp_path):
    running = Organisation(tmp_path)
    yield running
    running.broker.kill()


def budget(unit):
    found = unit.get("/v1/power")["budget"]
    return None if found is None else (round(found["watts"], 1), found["author"])


def has(unit, watts):
    wait_for(lambda: budget(unit) == (pytest.approx(watts, abs=0.1), "the organisation"))


def says(process, sentence):
    """Read on until the organiser says this."""
    watchdog = threading.Timer(DEADLINE, process.kill)
    watchdog.start()
    try:
        heard = []
        for line in process.stdout:
            heard.append(line.strip())
            if heard[-1] == sentence:
                return
        raise AssertionError(heard)
    finally:
        watchdog.cancel()


def shares(watts):
    cpus = HostCpu().cpus
    return water_fill({name: PowerHost(curve, cpus) for name, curve in CURVES.items()}, watts)


def test_a_budget_is_shared_out_followed_and_found_again(organisation):
    first, second = CURVES
    with ExitStack() as units:
        one = units.enter_context(organisation.unit(first))
        with ExitStack() as other, organisation.organiser(200) as organiser:
            two = other.enter_context(organisation.unit(second))
            says(organiser, "2 hosts have 200 W: 2 keep to it, 0 refuse it; 0 are dead")
            expected = shares(200.0)
            assert sum(expected.values()) == pytest.approx(200.0)
            # Where a watt carries most work, and not evenly.
            assert abs(expected[first] - expected[second]) > 5
            has(one, expected[first])
            has(two, expected[second])
            # One is killed: its host may draw all that it can without it.
            two.process.send_signal(signal.SIGKILL)
            says(organiser, "1 hosts have 80 W: 1 keep to it, 0 refuse it; 1 are dead")
            has(one, 200.0 - CURVES[second].full)
            other.close()
            two = other.enter_context(organisation.unit(second))
            says(organiser, "2 hosts have 200 W: 2 keep to it, 0 refuse it; 0 are dead")
            has(one, expected[first])
            has(two, expected[second])
            # Budgets stay in force without the organiser, and for one that was off meanwhile.
            organiser.send_signal(signal.SIGINT)
            assert organiser.wait(DEADLINE) == 130
            assert "Traceback" not in organiser.stderr.read()
        with organisation.unit(second) as two:
            has(two, expected[second])
        has(one, expected[first])


def test_what_one_unit_refuses_is_counted_and_a_broker_that_is_gone_is_said(organisation):
    first, _ = CURVES
    with organisation.unit(first) as one, organisation.organiser(40) as organiser:
        # Less than its host draws when it is idle.
        says(organiser, "1 hosts have 40 W: 0 keep to it, 1 refuse it; 0 are dead")
        assert budget(one) is None
        organisation.broker.kill()
        assert organiser.wait(DEADLINE) == 1
        message = organiser.stderr.read()
        where = f"tfm: the broker at 127.0.0.1:{organisation.broker.port} does not answer: "
        assert message.startswith(where)
        assert message.count("\n") == 1
        wait_for(lambda: "not connected to the broker" in (one.get("/v1/power")["problem"] or ""))
        assert one.process.poll() is None
