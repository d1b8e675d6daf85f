# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""tfm submit: tfm run in the background."""

from __future__ import annotations

import click

from tf_malleable.cli.launch.run import run

# It always needs a controller, and leaves the terminal.
_DECIDED = {"threads": None, "require_controller": True, "detach": True}


def _submit(**parameters: object) -> None:
    assert run.callback is not None
    run.callback(**_DECIDED, **parameters)


submit = click.Command(
    "submit",
    context_settings=run.context_settings,
    params=[option for option in run.params if option.name not in _DECIDED],
    callback=_submit,
    help="""Run a program with malleable TensorFlow in the background.

    For example: tfm submit --max 4 --retries 2 -- python train.py

    Prints the job's id and exits; the program waits for cores, runs on when the terminal is
    closed, and reads nothing. tfm logs shows what it prints, tfm wait waits for its end,
    tfm cancel ends it. The output is kept in the folder output beside the state file until
    it is deleted. With --array there is a job for each index, named NAME[INDEX], and its id on
    a line of its own.
    """,
)
