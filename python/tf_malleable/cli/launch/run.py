# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""tfm run: starts a program with malleable TensorFlow, once it has cores."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any, Final

import click
from click.core import ParameterSource

from tf_malleable.cli.completion import complete_groups, complete_jobs, complete_known_jobs
from tf_malleable.cli.launch.arrays import ArrayType
from tf_malleable.cli.launch.run_options import OPTIONS, RunOptions
from tf_malleable.cli.launch.start import start
from tf_malleable.cli.options import command_argument, socket_path_option
from tf_malleable.workload.options import add_option

_COMPLETE: Final = {
    "after": complete_jobs,
    "after-ok": complete_known_jobs,
    "group": complete_groups,
}


def _with_options(command: Callable[..., None]) -> Callable[..., None]:
    decorated = socket_path_option(command)
    for option in reversed(OPTIONS):
        kind = ArrayType() if option.kind == "array" else None
        complete = _COMPLETE.get(option.name)
        decorated = add_option(option, kind, complete)(decorated)
    return decorated


@click.command(context_settings={"allow_interspersed_args": False})
@_with_options
@command_argument
def run(socket: os.PathLike[str], **values: Any) -> None:  # noqa: ANN401 - of all options
    """Run an unchanged program with malleable TensorFlow.

    For example: tfm run --max 4 -- python train.py

    If a controller is running, the program starts when it is granted cores, and its cores
    change as other jobs come and go. Without a controller, or with --threads, it starts at
    once. In a container, the limits follow the CPUs that the container is given.

    A Python script that cannot be executed by itself, as in tfm run train.py, gets the Python of
    the active virtual environment, or else the first python3 of PATH.

    With TF_MALLEABLE_ELASTIC_COORDINATOR in its environment, as in a pod, the program becomes a
    worker of that elastic training.

    Every Python process of the program loads tf_malleable before tensorflow. The program
    replaces tfm, so exit code, signals, input and output are the program's own. With --retries,
    and for a job that is started on a terminal, tfm stays, passes signals on, and exits as the
    program did: the shell does not see when the controller stops the program.

    What the program leaves in the background when it ends stays part of the job, which lasts
    until the last of these processes has ended. Its exit code is that of the program.
    """
    context = click.get_current_context()
    given = frozenset(
        name
        for name in context.params
        if context.get_parameter_source(name) is ParameterSource.COMMANDLINE
    )
    start(RunOptions(socket=os.path.abspath(socket), given=given, **values))
