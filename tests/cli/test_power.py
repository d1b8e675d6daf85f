# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""tfm power, against a controller that replays a recording."""

from __future__ import annotations

import json

import pytest

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
