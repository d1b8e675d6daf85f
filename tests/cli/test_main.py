# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""The tfm command itself: what there is, and how quickly and cleanly it says so."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

import tf_malleable_cli
from tests.support.commands import tfm
from tests.support.deadline import DEADLINE
from tf_malleable.cli import main
from tf_malleable.cli.command_modules import LABELS, MATURITY
from tf_malleable.policies.registry import DEFAULT

# What the help calls values: a TIME has a unit, SECONDS have none; a PATH is a socket's.
VALUES = {
    *("N", "X", "N|all", "N|auto", "N[:MOST]", "SIZE", "TIME", "TIMES", "DAYS", "SECONDS"),
    *("WINDOW", "LIST", "ADDRESS", "others=N"),
    *("FILE", "[FILE]", "FOLDER", "FOLDERS", "PATH", "NAME", "NAME[=VALUE]", "JOB", "COMMAND"),
    *("PORT", "[HOST:]PORT", "HOST", "HOST:PORT", "HOST:PORT,…|dns:NAME:PORT", "IP:PORT"),
    *("POLICY", "AREA", "USER:AREA", "USER[:GROUP]", "INDICES", "KIND", "CURVE", "SPEC", "MODE"),
    *("IMAGE", "PROGRAM", "WATTS", "HOST:CONTAINER[:ro]", "[cpuset|quota]"),
    *("OBJECTIVE", "[auto|off]", "[swf|philly|helios|pai]"),
}
SECTIONS = {
    "Run": "run submit rerun workload",
    "Look": "jobs top show logs wait notify history web",
    "Change": "set pause resume cancel policy",
    "Controller": "controller status service",
    "More": "container elastic cluster tier power simulate config completion",
}
COMMANDS = [name for names in SECTIONS.values() for name in names.split()]


def test_help_lists_all_commands_by_what_they_are_for():
    result = tfm("--help")
    assert (result.returncode, result.stderr) == (0, "")
    assert "..." not in result.stdout.partition("Run:\n")[2]
    for section, names in SECTIONS.items():
        listed = result.stdout.partition(f"{section}:\n")[2].partition("\n\n")[0].splitlines()
        # A line that goes on has no name.
        heads = [line for line in listed if not line.startswith("   ")]
        assert [line.split()[0] for line in heads] == names.split()
        assert all(len(line.split()) > 2 for line in heads)


@pytest.mark.parametrize("command", COMMANDS)
def test_each_command_has_help(command):
    result = tfm(command, "-h")
    assert (result.returncode, result.stderr) == (0, "")
    assert result.stdout.startswith(f"Usage: tfm {command} ")
    label = MATURITY[command]
    said = " ".join(result.stdout.split())
    assert said.endswith(f" Maturity: {label} ({LABELS[label]}).")


def test_help_says_what_is_how_mature():
    said = " ".join(tfm("--help").stdout.split())
    assert said.count("(experimental)") == list(MATURITY.values()).count("experimental") > 0
    assert [name for name, label in MATURITY.items() if label == "stable"] == ["run"]
    assert said.endswith(
        "Maturity: run is stable, and all that is not marked as experimental is beta: complete,"
        " and tried with real processes, but on few kinds of machines."
    )


@pytest.mark.parametrize(
    ("words", "meant"),
    [
        (["jbos"], "jobs"),
        (["histroy"], "history"),
        (["elastic", "stauts"], "status"),
        (["power", "organize"], "organise"),
        (["jobs", "--jsn"], "--json"),
    ],
)
def test_a_slip_of_the_fingers_is_named(words, meant):
    result = tfm(*words)
    assert (result.returncode, result.stdout) == (2, "")
    assert result.stderr.endswith(f" Did you mean '{meant}'?\n")
    assert len(result.stderr.splitlines()) == 1


@pytest.mark.parametrize(("alias", "command"), [("ps", "jobs"), ("kill", "cancel")])
def test_the_names_of_other_systems_work(alias, command):
    assert tfm(alias, "--help").stdout == tfm(command, "--help").stdout


def test_values_of_options_have_the_same_names_everywhere():
    odd = [f"{path} {option}: {name}" for path, option, name in _values() if name not in VALUES]
    assert not odd


def _values(command: click.Command = main.tfm, path: str = "tfm") -> Iterator[tuple[str, str, str]]:
    """Yield the command, the option, and what its help calls the value, of all options."""
    context = click.Context(command)
    for option in command.params:
        is_value = isinstance(option, click.Option) and not (option.is_flag or option.count)
        if is_value and not option.hidden:
            yield path, option.opts[-1], option.make_metavar(context)
    if isinstance(command, click.Group):
        for name in command.list_commands(context):
            yield from _values(command.get_command(context, name), f"{path} {name}")


def test_container_run_tells_its_exit_codes_apart():
    said = " ".join(tfm("container", "run", "--help").stdout.split())
    assert "125 if the engine could not run it, 1 if the controller refused it, and 2" in said


def test_the_controller_names_the_policy_it_begins_with():
    said = " ".join(tfm("controller", "--help").stdout.split())
    assert f"[default: the last one used, at first {DEFAULT}]" in said


def test_without_a_command_it_shows_what_there_is():
    result = tfm()
    assert (result.returncode, result.stdout) == (2, "")
    assert "\nRun:\n  run " in result.stderr


def test_it_runs_as_a_program_of_its_python(tmp_path):
    # As the workload runner starts it: nothing in the present folder gets in its way.
    (tmp_path / "click.py").write_text("raise SystemExit('not this one')")
    program = Path(tf_malleable_cli.__file__).with_name("__main__.py")
    result = subprocess.run(
        [sys.executable, str(program), "--version"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=DEADLINE,
        check=False,
    )
    assert (result.returncode, result.stderr) == (0, "")
    assert result.stdout.startswith("tfm, version ")


def test_ctrl_c_ends_without_a_traceback():
    program = (
        "import sys, tf_malleable.cli.jobs.job_list as jobs, tf_malleable.cli.main as main\n"
        "def interrupt(*_): raise KeyboardInterrupt\n"
        "jobs.Client.jobs = interrupt\n"
        "sys.argv[1:] = ['jobs']\n"
        "sys.exit(main.main())\n"
    )
    result = subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True,
        text=True,
        timeout=DEADLINE,
        check=False,
    )
    assert (result.returncode, result.stdout, result.stderr.strip()) == (130, "", "")
