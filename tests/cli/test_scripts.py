# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Python scripts as programs: by which Python they run, and what several of them mean."""

from __future__ import annotations

import os
import sys

import pytest

from tests.support.commands import submitted, tfm


@pytest.fixture
def script(tmp_path, monkeypatch):
    """A script without a first line for the kernel, in the present folder."""
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "train.py"
    path.write_text("import sys; print(sys.argv[1:])\n")
    return path


@pytest.fixture
def python(tmp_path):
    """A function that makes a Python that says its name."""

    def make(folder: str, name: str) -> str:
        path = tmp_path / folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f'#!/bin/sh\necho "{folder}: $*"\n')
        path.chmod(0o755)
        return str(path.parent)

    return make


def test_a_script_gets_a_python_and_its_arguments(script):
    for name in ("train.py", str(script), "./train.py"):
        result = tfm("run", name, "--epochs", "3")
        assert (result.returncode, result.stdout) == (0, "['--epochs', '3']\n")


def test_a_script_that_only_looks_executable_gets_one_too(script):
    script.chmod(0o755)
    assert tfm("run", "./train.py", "x").stdout == "['x']\n"


@pytest.mark.parametrize("name", ["named.py", "./named.py"])
def test_a_script_that_names_its_interpreter_is_left_to_it(script, name):
    path = script.with_name("named.py")
    path.write_text("#!/bin/echo\n")
    path.chmod(0o755)
    assert tfm("run", name, "x").stdout == "./named.py x\n"


def test_it_is_the_python_of_the_virtual_environment_or_else_of_the_path(
    script, python, monkeypatch
):
    monkeypatch.setenv("PATH", f"{python('first', 'python3')}:{os.environ['PATH']}")
    monkeypatch.delenv("VIRTUAL_ENV", raising=False)
    assert tfm("run", "train.py").stdout == "first: train.py\n"
    python("venv/bin", "python")
    monkeypatch.setenv("VIRTUAL_ENV", "venv")
    assert tfm("run", "train.py").stdout == "venv/bin: train.py\n"


def test_a_job_is_named_after_its_script(script, controller, outputs):
    number = submitted("train.py", "7")
    assert tfm("wait", number).stdout == f"job {number} (train.py): finished, exit code 0\n"
    assert tfm("logs", number).stdout == "['7']\n"
    command = controller.get("/v1/history")["jobs"][0]["command"]
    assert command[1:] == ["train.py", "7"]
    assert os.path.isabs(command[0])


@pytest.mark.parametrize("command", ["run", "submit"])
def test_several_scripts_are_not_guessed_about(script, controller, outputs, command):
    other = script.with_name("other.py")
    other.write_text("")
    result = tfm(command, "train.py", "other.py")
    assert (result.returncode, result.stdout) == (2, "")
    assert result.stderr == (
        "tfm: 2 scripts are given: tfm submit --each makes a job of each, and"
        " python train.py before the others makes them its arguments\n"
    )
    result = tfm("run", sys.executable, "train.py", "other.py")
    assert result.stdout == "['other.py']\n"
