# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""What the command lines of the benchmarks have in common."""

from __future__ import annotations

import argparse
import signal
import sys
import time
from collections.abc import Callable
from datetime import datetime, timezone
from pathlib import Path
from typing import Any, NoReturn

import machine

_INTERRUPTED = 130
Say = Callable[[str], None]


class Parser(argparse.ArgumentParser):
    """Says in one line what was wrong, and has --out for a folder of results."""

    def __init__(self, description: str | None, out: str) -> None:
        super().__init__(description=description)
        self.add_argument(
            "--out", type=Path, default=Path(out), help="folder for results.json and .png"
        )

    def error(self, message: str) -> NoReturn:
        """Say what is wrong, without the usage, and exit."""
        self.exit(2, f"{self.prog}: {message}\n")

    def parse(self) -> argparse.Namespace:
        """Return the arguments; the folder is there then."""
        arguments = self.parse_args()
        try:
            arguments.out.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            self.error(f"--out: {error.strerror}: {arguments.out}")
        return arguments


def positive(text: str) -> int:
    """Return an argument that is an integer from 1."""
    number = int(text) if text.isascii() and text.isdigit() else 0
    if number < 1:
        raise argparse.ArgumentTypeError(f"must be an integer from 1, not {text!r}")
    return number


def context() -> dict[str, Any]:
    """Return where, on what and when this is measured."""
    date = datetime.now(timezone.utc).isoformat(timespec="seconds")
    return {**machine.describe(), "date": date}


def sayer() -> Say:
    """Return what prints a line of progress, with the seconds since this call."""
    start = time.monotonic()

    def say(text: str) -> None:
        print(f"{time.monotonic() - start:5.0f} s  {text}", flush=True)

    return say


def finish(name: str, run: Callable[[], None], errors: tuple[type[Exception], ...]) -> int:
    """Run a benchmark; return its exit code, and say in one line what ended it early."""
    signal.signal(signal.SIGTERM, _stop)
    try:
        run()
    except KeyboardInterrupt:
        print(f"{name}: interrupted", file=sys.stderr)
        return _INTERRUPTED
    except (*errors, OSError) as error:
        print(f"{name}: {error}", file=sys.stderr)
        return 1
    return 0


def _stop(signal_number: int, frame: object) -> NoReturn:
    raise KeyboardInterrupt
