# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""tfm power, against a controller that replays a recording."""

from __future__ import annotations

import json
import time

import pytest

from tests.support.controllers import Client, controller, job, wait_for
from tests.support.powercap import Powercap
from tf_malleable.cli.main import tfm
from tf_malleable.power.curve_file import read_curve
from tf_malleable.workload.private_controller import private_controller

POINTS = "0:58.4,0.3:118,0.5:140,0.8:189,1:222"


def output(capsys, *arguments: str) -> str:
    tfm.main(list(arguments), standalone_mode=False)
    return capsys.readouterr().out


def refusal(*arguments: str) -> str:
    with pytest.raises(Exception) as caught:  # noqa: PT011
        tfm.main(list(arguments), standalone_mode=False)
    message = str(caught.value)
    assert "\n" not in message
    return message


def test_points_become_a_curve(tmp_path, capsys):
    path = tmp_path / "curve.json"
    said = output(capsys, "power", "calibrate", "--points", POINTS, "--power-curve", str(path))
    assert "222.0" in said
    curve = read_curve(path)
    assert curve is not None
    assert curve.points[1] == (0.3, 118.0)


@pytest.mark.parametrize(
    ("points", "complaint"),
    [
        ("", "--points must be LOAD:WATTS"),
        ("0:50", "at idle and at full load"),
        ("0:50,1", "--points must be LOAD:WATTS"),
        ("0:50,1:nan", "0 or more, not nan"),
        ("0:50,100:90", "from 0 to 1, not 100"),
    ],
)
def test_what_is_no_calibration(tmp_path, points, complaint):
    path = str(tmp_path / "curve.json")
    assert complaint in refusal("power", "calibrate", "--points", points, "--power-curve", path)


def test_without_a_meter_points_are_asked_for(tmp_path):
    message = refusal("power", "calibrate", "--meter", f"rapl:{tmp_path}")
    assert message == f"there are no RAPL packages in {tmp_path}: give --points"


def test_access_rules(capsys):
    said = output(capsys, "power", "acl", "lab/a", "--operator", "boss:lab")
    assert "user lab/a\ntopic read tfm/v1/lab/a/budget\n" in said
    assert "user boss\ntopic readwrite tfm/v1/lab/#\n" in said
    assert "AREA/UNIT" in refusal("power", "acl", "a")
    assert "USER:AREA" in refusal("power", "acl", "lab/a", "--operator", "boss")


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        (("--area", "a b"), "an area is names"),
        (("--area", "lab", "--meter", "solar"), "--meter must be one of"),
        (("--budgets-from", "/dev/null"), "--budgets-from needs --area"),
        (("--area", "lab", "--budgets-from", "/dev/null"), "describes no broker"),
        (("--safe-watts", "-1"), "above 0 W"),
        (("--safe-watts", "nan"), "not nan"),
    ],
)
def test_controllers_that_do_not_start(options, complaint, tmp_path):
    paths = ("--socket", str(tmp_path / "s"), "--state", str(tmp_path / "db"))
    assert complaint in refusal("controller", *paths, *options)


def test_an_organisation_without_its_broker(tmp_path):
    (tmp_path / "broker.json").write_text('{"host": "127.0.0.1", "port": 1}')
    where = ("--broker", str(tmp_path / "broker.json"))
    message = refusal("power", "organise", "lab", "900", *where)
    assert message.startswith("the broker at 127.0.0.1:1 does not answer: ")
    assert "not nan" in refusal("power", "organise", "lab", "nan", *where)
    assert "names with slashes" in refusal("power", "organise", "a b", "900", *where)


@pytest.mark.slow
def test_a_metered_host(tmp_path, capsys):
    cap, path = Powercap(tmp_path / "powercap"), tmp_path / "curve.json"
    output(capsys, "power", "calibrate", "--points", POINTS, "--power-curve", str(path))
    options = ("--area=lab", f"--meter=replay:{cap.root}", f"--power-curve={path}")
    with private_controller(*options) as started:
        where = ("--socket", str(started.client.socket))
        said = output(
            capsys, "power", "budget", "lab", "500", "--mean", "5m", "--until", "1h", *where
        )
        assert said.startswith("budget: on average over 5:00 at most 500 W until ")
        assert "by this host" in said
        found = json.loads(output(capsys, "power", "--json", *where))
        assert (found["area"], found["meter"]) == ("lab", "RAPL (package-0, package-1)")
        assert found["budget"]["window"] == 300
        assert "500 W" in output(capsys, "power", *where)
        assert output(capsys, "power", "budget", "lab", "none", *where) == (
            "budget: none, and no limit\n"
        )
        assert refusal("power", "budget", "x", "90", *where).endswith(
            "no job here is in area x: budgets can be given to lab"
        )
        for watts in ("nan", "0", "inf", "many"):
            assert "WATTS must be a number above 0" in refusal(
                "power", "budget", "lab", watts, *where
            ), watts
        assert "exclude each other" in refusal(
            "power", "budget", "lab", "90", "--peak", "--mean", "5m", *where
        )


@pytest.mark.slow
def test_a_host_that_is_not_metered(capsys):
    with private_controller() as started:
        where = ("--socket", str(started.client.socket))
        assert "start it with --area" in refusal("power", *where)
        assert "start it with --area" in refusal("power", "budget", "lab", "90", *where)


@pytest.mark.slow
def test_a_meter_s_energy_is_shown_for_jobs_steps_and_areas_everywhere(tmp_path, capsys):
    cap, path = Powercap(tmp_path / "powercap"), tmp_path / "curve.json"
    output(capsys, "power", "calibrate", "--points", POINTS, "--power-curve", str(path))
    options = ("--area=lab", f"--meter=rapl:{cap.root}", f"--power-curve={path}")
    with controller(tmp_path, *options) as running, job(running.socket) as speaker:
        where = ("--socket", str(running.socket))
        mine = speaker.submit(name="mine", area="project-x")
        assert speaker.ask("POST", f"/v1/jobs/{mine}/progress", {"steps_done": 50})[0] < 300
        status, begin = {}, time.monotonic()

        def metered():
            cap.set(1e6 + 100e6 * (time.monotonic() - begin), 1e6)  # 100 W.
            speaker.ask("POST", f"/v1/jobs/{mine}/progress", {"steps_done": 50})
            status.update(running.get(f"/v1/jobs/{mine}"))
            return (status["energy_joules"] or 0) > 1

        wait_for(metered)
        assert status["energy_source"] == "measured"
        assert status["watts"] is not None
        head, row = output(capsys, "jobs", *where).splitlines()[:2]
        assert head.split()[-5:] == ["watts", "energy", "per", "step", "source"]
        assert row.split()[-1] == "measured"
        assert row.split()[-2] in ("J", "mJ")
        assert "J/step" in output(capsys, "top", "--once", *where)
        assert "measured" in output(capsys, "power", *where)
        assert "(measured)" in output(capsys, "show", mine, *where)
        metrics = ask_text(running.socket, "/metrics")
        assert 'tfm_energy_joules_total{area="project-x",source="measured"}' in metrics
        assert 'tfm_energy_joules_total{area="lab",source="measured"}' in metrics
        # Its area can have a budget of its own now.
        said = output(capsys, "power", "budget", "project-x", "90", "--mean", "1m", *where)
        assert said.startswith("budget: on average over 60.0 s at most 90 W, by this host;")
        assert "area project-x: budget: on average" in output(capsys, "power", *where)
        said = output(capsys, "power", "budget", "project-x", "none", *where)
        assert said == "budget: none, and no limit\n"
        speaker.end()
        wait_for(lambda: not running.get("/v1/jobs")["jobs"])
        head, row = output(capsys, "history", *where).splitlines()[:2]
        assert head.split()[-4:] == ["energy", "per", "step", "source"]
        assert row.split()[-1] == "measured"


def ask_text(socket, target: str) -> str:
    client = Client(socket)
    try:
        client.request("GET", target)
        return client.getresponse().read().decode()
    finally:
        client.close()
