# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""The command line that all benchmarks have.

Nothing heavy is imported here: a wrong name is to be refused at once.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TextIO

from examples.command_line import Parser

_INTERRUPTED = 130
Say = Callable[[str], None]


class BenchmarkError(Exception):
    """Why a measurement cannot go on, in one sentence."""


class CommandLine(Parser):
    """Has --out, --only and --list, and refuses in one sentence, before anything is made."""

    def __init__(self, name: str, description: str, out: str, choices: Mapping[str, str]) -> None:
        """Prepare.

        Args:
            name: Name of the benchmark.
            description: Description of what it measures.
            out: Folder for results, unless another is given.
            choices: Names that --only takes, each with what it stands for.
        """
        super().__init__(prog=name, description=description)
        self._choices = choices
        self.add_argument(
            "--out", type=Path, default=Path(out), help="folder for results.json and results.png"
        )
        self.add_argument(
            "--only",
            nargs="+",
            action="extend",
            default=[],
            metavar="NAME",
            help=f"of {', '.join(choices)}",
        )
        self.add_argument("--list", action="store_true", help="print the names and end")

    def parse(
        self,
        arguments: Sequence[str] | None,
        check: Callable[[tuple[str, ...]], object] = lambda only: None,
    ) -> argparse.Namespace:
        """Return the arguments, `only` in the order of the choices; the folder exists then.

        Args:
            arguments: Those of the command line; None for this process's.
            check: Raises ValueError, with a sentence, for names that do not go together.
        """
        found = self.parse_args(arguments)
        for name in found.only:
            if name not in self._choices:
                self.error(
                    f"--only: there is no {name!r}; the names are {', '.join(self._choices)}"
                )
        if found.list:
            self._list(found.only)
            self.exit()
        found.only = tuple(name for name in self._choices if name in found.only)
        try:
            check(found.only)
        except ValueError as error:
            self.error(f"--only: {error}")
        try:
            found.out.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            self.error(f"--out: {error.strerror}: {found.out}")
        return found

    def _list(self, only: Sequence[str]) -> None:
        width = max(map(len, self._choices))
        lines = [
            f"{name:{width}}  {title}"
            for name, title in self._choices.items()
            if not only or name in only
        ]
        try:
            print(*lines, sep="\n", flush=True)
        except BrokenPipeError:
            # The reader has seen enough, as `| head` does; Python's flush at exit must not fail.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def positive(text: str) -> int:
    """Return an argument that is an integer from 1."""
    number = int(text) if text.isascii() and text.isdigit() else 0
    if number < 1:
        raise argparse.ArgumentTypeError(f"must be an integer from 1, not {text!r}")
    return number


def sayer(file: TextIO | None = None) -> Say:
    """Return what prints a line of progress to a file, with the seconds since this call."""
    start = time.monotonic()

    def say(text: str) -> None:
        print(f"{time.monotonic() - start:5.0f} s  {text}", file=file, flush=True)

    return say


def finish(name: str, run: Callable[[], None], *errors: type[Exception]) -> int:
    """Run a benchmark; return its exit code, and say in one line what ended it early."""
    # Not at the top: it brings the package, which is not needed to refuse.
    from tf_malleable.workload.interrupts import end_on_signals

    end_on_signals()
    try:
        run()
    except KeyboardInterrupt:
        print(f"{name}: interrupted", file=sys.stderr)
        return _INTERRUPTED
    except (BenchmarkError, OSError, *errors) as error:
        print(f"{name}: {error}", file=sys.stderr)
        return 1
    return 0
