# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""tfm submit: tfm run in the background."""

from __future__ import annotations

import os
from copy import copy

import click

from tf_malleable.cli.launch.run import run

# It always needs a controller, and leaves the terminal.
_DECIDED = {"threads": None, "require_controller": True, "detach": True}


def _submit(**parameters: object) -> None:
    assert run.callback is not None
    if parameters.pop("resume"):
        _resume(str(parameters["socket"]), parameters["command"])
        return
    if not parameters["command"]:
        context = click.get_current_context()
        raise click.MissingParameter(ctx=context, param=_command)
    run.callback(**_DECIDED, **parameters)


def _resume(socket: str, command: object) -> None:
    if command:
        raise click.UsageError("--resume submits stored jobs again: give no program")
    from tf_malleable.cli.background.resume import resume

    resume(os.path.abspath(socket))


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

    Until the job has ended, its command, environment, folder and options are stored beside the
    output, for its user alone. After a reboot, tfm submit --resume submits what waited again, and
    what ran if --requeue or --retries say so; your own controller does that when it starts.
    """,
)
