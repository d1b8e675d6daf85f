# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""The tfm command: its options, and one line instead of a traceback."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import NoReturn

import click

import tf_malleable
from tf_malleable.runtime import environment

_PRELOAD = Path(__file__).parent.parent / "preload"


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(tf_malleable.__version__, prog_name="tfm")
def tfm() -> None:
    """Change how many threads TensorFlow uses while it runs."""


@tfm.command(context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False})
@click.option(
    "--threads",
    type=int,
    metavar="N",
    help="Start with this limit, intra-op and inter-op alike.",
)
@click.argument("command", nargs=-1, required=True, type=click.UNPROCESSED)
def run(threads: int | None, command: tuple[str, ...]) -> None:
    """Run a program, unchanged, with malleable TensorFlow.

    For example: tfm run --threads 2 -- python train.py

    Every Python that the program starts loads tf_malleable before tensorflow. The
    program takes the place of tfm: exit code, signals, input and output are its own.
    """
    most = environment.max_threads()
    if threads is not None:
        if not 1 <= threads <= most:
            raise ValueError(f"--threads must be an integer from 1 to {most}, not {threads}")
        os.environ[environment.THREADS] = str(threads)
    inherited = os.environ.get("PYTHONPATH", "")
    paths = [str(_PRELOAD), *(path for path in inherited.split(os.pathsep) if path)]
    os.environ["PYTHONPATH"] = os.pathsep.join(dict.fromkeys(paths))
    _become(command)


def _become(command: tuple[str, ...]) -> NoReturn:
    """Replace this process by a command; exit codes of failure as shells have them."""
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
        tfm.main(standalone_mode=False)
    except click.exceptions.NoArgsIsHelpError as error:
        print(error.format_message(), file=sys.stderr)
        return 2
    except click.ClickException as error:
        print(f"tfm: {error.format_message()}", file=sys.stderr)
        return 2
    except ValueError as error:
        print(f"tfm: {error}", file=sys.stderr)
        return 2
    return 0
