# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""tfm submit: tfm run in the background."""

from __future__ import annotations

import os
from collections.abc import Mapping
from copy import copy
from typing import Any

import click

from tf_malleable.cli.completion import complete_files
from tf_malleable.cli.launch.run import run

# It always needs a controller, and leaves the terminal.
_DECIDED = {"threads": None, "require_controller": True, "detach": True}


def _submit(**parameters: object) -> None:
    assert run.callback is not None
    how = {name: parameters.pop(name) for name in ("resume", "file", "each")}
    if list(map(bool, how.values())).count(True) > 1:
        raise click.UsageError("--resume, --file and --each exclude each other: give one of them")
    if how["resume"]:
        _resume(str(parameters["socket"]), parameters["command"])
        return
    if how["file"] is not None:
        _submit_lines(str(how["file"]), {**_DECIDED, **parameters})
        return
    if not parameters["command"]:
        context = click.get_current_context()
        raise click.MissingParameter(ctx=context, param=_command)
    if how["each"]:
        _submit_each({**_DECIDED, **parameters})
        return
    run.callback(**_DECIDED, **parameters)


def _submit_lines(file: str, parameters: Mapping[str, Any]) -> None:
    if parameters["command"]:
        raise click.UsageError("--file has the commands: give no program")
    from tf_malleable.cli.background.batch import of_lines, submit_all

    click.echo("\n".join(submit_all(of_lines(submit, file, parameters))))


def _submit_each(parameters: Mapping[str, Any]) -> None:
    from tf_malleable.cli.background.batch import of_scripts, submit_all

    click.echo("\n".join(submit_all(of_scripts(parameters["command"], parameters))))


def _resume(socket: str, command: object) -> None:
    if command:
        raise click.UsageError("--resume submits stored jobs again: give no program")
    from tf_malleable.cli.background.outputs import begin_resumption
    from tf_malleable.cli.background.resume import resume

    resume(os.path.abspath(socket), begin_resumption())


_command = copy(next(each for each in run.params if each.name == "command"))
_command.required = False

submit = click.Command(
    "submit",
    context_settings=run.context_settings,
    params=[
        *(option for option in run.params if option.name not in (*_DECIDED, "command")),
        click.Option(
            ["--resume"],
            is_flag=True,
            help="Submit jobs again that a reboot has interrupted, or kept from their start.",
        ),
        click.Option(
            ["--file"],
            metavar="FILE",
            help="Submit a job for each line of FILE, or of stdin if it is -.",
            shell_complete=complete_files,
        ),
        click.Option(
            ["--each"],
            is_flag=True,
            help="Submit a job for each script: tfm submit --each *.py.",
        ),
        _command,
    ],
    callback=_submit,
    help="""Run a program with malleable TensorFlow in the background.

    For example: tfm submit --max 4 --retries 2 -- python train.py

    Prints the job's id and exits; the program waits for cores, runs on when the terminal is
    closed, and reads nothing. tfm logs shows what it prints, tfm wait waits for its end,
    tfm cancel ends it. The output is kept in the folder output beside the state file until
    it is deleted. With --array there is a job for each index, named NAME[INDEX], and its id on
    a line of its own.

    A Python script that cannot be executed by itself, as in tfm submit train.py, gets the Python
    of the active virtual environment, or else the first python3 of PATH.

    With --file, each line is a command, quoted as in a shell, and may begin with options for its
    job, followed by --; other options hold for all lines. Empty lines and those that begin with #
    are skipped. All lines are checked first: all jobs are submitted, or none.

    Until the job has ended, its command, environment, folder and options are stored beside the
    output, for its user alone. After a reboot, tfm submit --resume submits what waited again, and
    what ran if --requeue or --retries say so; your own controller does that when it starts.
    """,
)
