# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""The demo takes about as long on a slow machine as on a fast one."""

from __future__ import annotations

import pytest

from examples import speed


@pytest.mark.parametrize(("factor", "steps"), [(0.25, "250"), (1.0, "1000"), (3.0, "3000")])
def test_only_the_steps_of_a_command_are_scaled(factor, steps):
    command = ("python", "cnn.py", "--steps", "1000", "--size", "128")
    assert speed.scaled(command, factor) == ("python", "cnn.py", "--steps", steps, "--size", "128")


def test_a_command_keeps_a_step():
    assert speed.scaled(["cnn.py", "--steps", "3"], 0.01) == ("cnn.py", "--steps", "1")


def test_a_start_does_not_count_however_long_it_takes(monkeypatch):
    usual = speed.STEP_SECONDS["cnn"]
    monkeypatch.setattr(speed, "_seconds", lambda program, steps, _: 7 + 4 * usual * steps)
    assert speed.measure("cnn", seconds=1.0) == 0.25


def test_it_is_the_speed_of_one_core(monkeypatch, tmp_path):
    program = "import os\nprint(len(os.sched_getaffinity(0)), file=open('cpus', 'a'))\n"
    (tmp_path / "cnn.py").write_text(program)
    monkeypatch.setattr(speed, "TRAININGS", tmp_path)
    monkeypatch.chdir(tmp_path)
    assert speed.measure("cnn", seconds=1.0) > 0
    assert (tmp_path / "cpus").read_text() == "1\n1\n"


def test_a_training_that_fails_is_named(monkeypatch, tmp_path):
    (tmp_path / "rnn.py").write_text("raise SystemExit('no data today')\n")
    monkeypatch.setattr(speed, "TRAININGS", tmp_path)
    with pytest.raises(speed.TrainingError, match="the training rnn failed: no data today"):
        speed.measure("rnn", seconds=1.0)
