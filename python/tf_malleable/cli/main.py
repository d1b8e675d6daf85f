# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""The tfm command: its options, and one line instead of a traceback."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Annotated, NoReturn

import click
import typer

from tf_malleable.runtime import environment

app = typer.Typer(
    name="tfm",
    help="Change how many threads TensorFlow uses while it runs.",
    no_args_is_help=True,
    add_completion=False,
)

_PRELOAD = Path(__file__).parent.parent / "preload"


@app.callback()
def _commands() -> None:
    """Change how many threads TensorFlow uses while it runs."""


@app.command(context_settings={"ignore_unknown_options": True})
def run(
    command: Annotated[
        list[str], typer.Argument(metavar="COMMAND …", help="The program and its arguments.")
    ],
    threads: Annotated[
        int | None,
        typer.Option(
            "--threads", metavar="N", help="Start with this limit, intra-op and inter-op alike."
        ),
    ] = None,
) -> None:
    """Run a program with malleable TensorFlow, unchanged: tfm run -- python train.py.

    Every Python that the program starts loads tf_malleable before tensorflow. The
    program takes the place of tfm: exit code, signals, input and output are its own.
    """
    most = environment.max_threads()
    if threads is not None:
        if not 1 <= threads <= most:
            raise ValueError(f"--threads must be an integer from 1 to {most}, not {threads}")
        os.environ[environment.THREADS] = str(threads)
    environment.first_threads()
    inherited = os.environ.get("PYTHONPATH", "")
    paths = [str(_PRELOAD), *(path for path in inherited.split(os.pathsep) if path)]
    os.environ["PYTHONPATH"] = os.pathsep.join(dict.fromkeys(paths))
    _become(command)


def _become(command: list[str]) -> NoReturn:
    """Replace this process by a command; exit codes of failure as shells have them."""
    sys.stdout.flush()
    try:
        os.execvp(command[0], command)
    except FileNotFoundError:
        print(f"tfm: there is no program {command[0]!r}", file=sys.stderr)
        sys.exit(127)
    except OSError as error:
        print(f"tfm: cannot run {command[0]!r}: {error.strerror}", file=sys.stderr)
        sys.exit(126)


def main() -> int:
    """Run the command line. Bad input: one line on stderr, exit code 2."""
    try:
        app(standalone_mode=False)
    except click.exceptions.NoArgsIsHelpError:
        return 2
    except click.ClickException as error:
        print(f"tfm: {error.format_message()}", file=sys.stderr)
        return 2
    except ValueError as error:
        print(f"tfm: {error}", file=sys.stderr)
        return 2
    except click.exceptions.Abort:
        return 130
    return 0
