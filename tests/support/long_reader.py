# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""A program that stays up, and opens and reads the files that it is told to."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from tests.support.deadline import DEADLINE

_PROGRAM = Path(__file__).with_name("read_loop.py")


class LongReader:
    """A process that opens and reads files, one after another."""

    def __init__(self, before: Sequence[str], environment: Mapping[str, str] | None = None) -> None:
        """Start it.

        Args:
            before: Words of the command that starts it, in front of those of Python.
            environment: Its environment; None for this process's.
        """
        # Not as a module of the tests, which another user's Python might not find.
        self._process = subprocess.Popen(
            [*before, sys.executable, "-c", _PROGRAM.read_text()],
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert self._ask("hello") == "hello"

    def read(self, path: str | Path) -> bytes | None:
        """Open a file and read all of it; None if that is not permitted."""
        said = self._ask(f"read {path}")
        return None if said is None else bytes.fromhex(str(said))

    def open(self, path: str | Path) -> None:
        """Open a file for more() and keep it open."""
        assert self._ask(f"open {path}") == "opened"

    def more(self, size: int = -1) -> bytes:
        """Read on in the open file: `size` bytes, or to its end."""
        return bytes.fromhex(str(self._ask(f"more {size}")))

    def close(self) -> None:
        """Close the open file."""
        self._ask("close")

    def call(self, code: str) -> object:
        """Return the value of an expression, in which `fd` is the descriptor of the open file."""
        return self._ask(f"call {code}")

    def _ask(self, line: str) -> object:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(line + "\n")
        self._process.stdin.flush()
        return json.loads(self._process.stdout.readline())

    def __enter__(self) -> LongReader:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        self._process.communicate(timeout=DEADLINE)
