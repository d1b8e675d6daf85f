# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""The light front of tfm run reads a command line as click does, or leaves it to click."""

from __future__ import annotations

import os
import subprocess
import sys
import sysconfig
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.support.controllers import TFM
from tf_malleable.cli.launch import front
from tf_malleable.cli.launch import run as run_module
from tf_malleable.cli.launch.front import read
from tf_malleable.cli.launch.run_options import OPTIONS, RunOptions
from tf_malleable.cli.main import tfm
from tf_malleable.cli.settings_sources import variable_of
from tf_malleable.workload.job_options import CommandOption

VALUES = {
    "int": ["0", "1", "-3", "4", "65536", "65537", "+2", " 2", "1_0", "", "two", "1.5", "٣"],
    "float": ["1", "0.5", "-1", "nan", "1e3", "", "x"],
    "size": ["512M", "4g", "1", "99999999999999999", "", "4X"],
    "duration": ["90m", "12h", "0s", "36501d", "", "5"],
    "text": ["name", "", "-", "--", "--max", "a=b", "é", "\udcff"],
    "path": ["no/such/file", "./a//b", "/dev/null", "", "-", "--max"],
    "array": ["1-3", "1,2%1", "x"],
}
SWITCHED = ["1", "0", "true", "Yes", "on", "t", "off", "no", "", "2"]
SOCKET = CommandOption("socket", "", "path")
WORDS = ["--", "-", "true", "", "-h", "--help", "-x", "--mim", "--no-max", "-xmax", "---", "--="]


def said(option: CommandOption) -> st.SearchStrategy[tuple[str, ...]]:
    """Return an option as command lines spell it, rightly or wrongly."""
    name = f"--{option.name}"
    if option.kind in ("flag", "switch"):
        words = [name, f"--no-{option.name}", f"{name}=1"]
        return st.sampled_from([(word,) for word in words])
    values = VALUES[option.kind]
    return st.sampled_from(
        [(name,), *((name, value) for value in values), *((f"{name}={value}",) for value in values)]
    )


command_lines = st.builds(
    lambda options, words: [word for option in options for word in option] + words,
    st.lists(st.one_of([said(option) for option in (*OPTIONS, SOCKET)]), max_size=4),
    st.lists(st.sampled_from(WORDS), max_size=3),
)


def by_click(arguments: list[str]) -> RunOptions | None:
    """Return what the command gets from click; None if click refuses, or prints the help."""
    got: list[RunOptions] = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(run_module, "start", got.append)
        patch.setattr(sys, "stdout", None)
        try:
            tfm.main(["run", *arguments], standalone_mode=False)
        except Exception:
            assert not got
    return got[0] if got else None


def spelled(options: RunOptions | None) -> str:
    """Return options as text, in which nan equals nan."""
    if options is None:
        return ""
    return repr((replace(options, given=frozenset()), sorted(options.given)))


@pytest.fixture
def bare(monkeypatch, tmp_path):
    """No settings, and an account without a controller."""
    for name in [*os.environ]:
        # Not what lets the tests' controllers share the CPUs.
        if name.startswith("TF_MALLEABLE_") and name != "TF_MALLEABLE_CLAIMS":
            monkeypatch.delenv(name)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    return tmp_path / "tf_malleable" / "config.ini"


AGAIN = settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)


@AGAIN
@given(command_lines)
def test_any_command_line(bare, arguments):
    options = read(arguments)
    if options is not None:
        assert spelled(options) == spelled(by_click(arguments))


ORDINARY = [
    ["--", "true"],
    ["true", "--max", "4"],
    ["true", "--", "x"],
    ["--threads", "1", "--", "true"],
    ["--threads=2", "true"],
    ["--max", "4", "--priority=-3", "--weight=0.5", "--mem", "4G", "--", "python", "a.py"],
    ["--min=1", "--preferred", "2", "--gpus", "1", "--name", "x", "--id-file", "id", "true"],
    ["--no-queue", "--queue", "--no-follow-cgroup", "--require-controller", "true"],
    ["--start-controller", "--no-start-controller", "true"],
    ["--require-malleable", "--kill-leftovers", "--tier", "--area=a/b", "true"],
    ["--time-limit", "90m", "--expected=1h", "--after", "1", "--after=2", "--socket", "s", "true"],
    [
        "--between",
        "22:00-07:00",
        "--days=mon-fri",
        "--after-ok",
        "1",
        "--group=g",
        "--slo",
        "p99=50ms",
        "true",
    ],
    ["--retries", "2", "--requeue", "--detach", "--notify", "mail", "true"],
]


@pytest.mark.parametrize("arguments", ORDINARY)
def test_ordinary_command_lines_are_read_here(bare, arguments):
    options = read(arguments)
    assert options is not None
    assert options == by_click(arguments)


def test_the_ordinary_command_lines_have_every_option():
    named = {word.partition("=")[0] for words in ORDINARY for word in words}
    assert {f"--{each.name}" for each in OPTIONS} - named == {"--array", "--follow-cgroup"}


@AGAIN
@given(st.data())
def test_any_setting(bare, data):
    option = data.draw(st.sampled_from([*OPTIONS, SOCKET]))
    value = data.draw(st.sampled_from(VALUES.get(option.kind, SWITCHED)))
    arguments = data.draw(st.sampled_from([[], ["--max", "2"], ["--no-queue"]]))
    where = data.draw(st.sampled_from(["file", "variable"]))
    bare.unlink(missing_ok=True)
    with pytest.MonkeyPatch.context() as patch:
        if where == "variable":
            patch.setenv(variable_of("run", option.name), value)
        else:
            bare.parent.mkdir(exist_ok=True)
            bare.write_text(
                f"[run]\n{option.name} = {value}\n[container run]\nmax = 1\n",
                errors="surrogateescape",
            )
        options = read([*arguments, "true"])
        if options is not None:
            assert spelled(options) == spelled(by_click([*arguments, "true"]))


@pytest.mark.parametrize(
    ("text", "is_read"),
    [
        ("[run]\nmax = 2\nqueue = no\nname = x\n[container run]\nmax = 1\n", True),
        ("[run]\nthreds = 2\n", False),
        ("[run]\nmax = two\n", False),
        ("[jog]\nmax = 2\n", False),
        ("max = 2\n", False),
        ("\udcff", False),
    ],
)
def test_a_settings_file(bare, text, is_read):
    bare.parent.mkdir()
    bare.write_text(text, errors="surrogateescape")
    options = read(["--max=3", "true"])
    assert (options is not None) == is_read
    assert options == by_click(["--max=3", "true"])


def test_a_controller_on_another_host_is_for_click(bare, monkeypatch):
    monkeypatch.setenv("TF_MALLEABLE_HOST", "ssh://other")
    assert read(["true"]) is None
    assert read(["--socket", "here", "true"]) == by_click(["--socket", "here", "true"])


def test_what_fails_is_one_line_and_an_exit_code(bare, monkeypatch, capsys):
    monkeypatch.setenv("TF_MALLEABLE_FOLLOW_CGROUP", "0")  # The call sets it for the program.
    assert front.run_program(["--min", "0", "true"]) == 2
    assert capsys.readouterr().err == "tfm: min must be an integer from 1 to 65536, not 0\n"


SLOW = ("click", "dataclasses", "email", "http", "inspect", "msgspec", "pathlib", "typing")


@pytest.mark.parametrize("has_controller", [False, True])
@pytest.mark.parametrize(
    "options",
    [
        ["--threads", "1"],
        [],
        ["--max=1", "--priority", "3"],
        ["--name", "a", "--id-file", "id"],
        ["--follow-cgroup"],
        ["--no-queue", "--time-limit", "1h"],
    ],
)
def test_ordinary_command_lines_load_nothing_slow(bare, request, tmp_path, options, has_controller):
    """The time that a program waits for, without a clock."""
    env = {**os.environ, "PYTHONPATH": sysconfig.get_path("purelib")}
    if has_controller:
        running = request.getfixturevalue("controller")
        env["TF_MALLEABLE_SOCKET"] = str(running.socket)
        options = [*options, *([] if "--threads" in options else ["--require-controller"])]
    # Without packages' own .pth files, one of which may load anything.
    words = [sys.executable, "-S", "-X", "importtime", TFM, "run", *options, "--", "true"]
    done = subprocess.run(
        words, env=env, cwd=tmp_path, capture_output=True, text=True, check=False, timeout=120
    )
    assert done.returncode == 0, done.stderr
    loaded = [line.rpartition("|")[2].strip() for line in done.stderr.splitlines()]
    assert "tf_malleable.cli.launch.start" in loaded
    assert has_controller == ("tf_malleable.cli.launch.queue" in loaded) or "--threads" in options
    slow = (*SLOW, "json", "re") if "--threads" in options else SLOW
    assert [name for name in loaded if name.partition(".")[0] in slow] == []


def test_tfm_is_a_python_script():
    """As the test above starts it with this Python."""
    assert Path(TFM).read_text().startswith("#!")
