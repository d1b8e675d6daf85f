# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Names and commands of jobs, as people get to see them."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import PurePath
from typing import Final

LONGEST_NAME: Final = 200
_MOST_ARGUMENTS: Final = 256
# Cut to this, a command also fits into an environment variable.
_LONGEST_COMMAND: Final = 4096

_PYTHON: Final = re.compile(r"(python|pypy)[0-9.]*")


def readable(text: str) -> str:
    """Return text with a question mark for each byte of it that is not UTF-8."""
    return text.encode(errors="replace").decode()


def printable_name(name: str) -> str:
    """Return a job's name as the controller takes it: printable and not too long."""
    return "".join(c if c.isprintable() else "?" for c in readable(name))[:LONGEST_NAME]


def shortened_command(command: Sequence[str]) -> tuple[str, ...]:
    """Return a command as it is shown: no longer than a few thousand characters."""
    shown = []
    room = _LONGEST_COMMAND
    for argument in command[:_MOST_ARGUMENTS]:
        if room <= 0:
            break
        shown.append(readable(argument)[:room])
        room -= len(argument) + 1
    return tuple(shown)


def default_name(command: Sequence[str]) -> str:
    """Return ``"train.py"`` for ``python train.py``, ``"pkg.mod"`` for ``python -m pkg.mod``.

    For any other program its own name.
    """
    program = PurePath(command[0]).name
    script = _script(iter(command[1:])) if _PYTHON.fullmatch(program) else ""
    return printable_name(script or program or "?")


def _script(arguments: Iterator[str]) -> str:
    for argument in arguments:
        if not argument.startswith("-"):
            return PurePath(argument).name
        # Letters may be joined, -uW ignore; these four take the rest or the next argument.
        taking = None if argument.startswith("--") else re.search("[cmWX]", argument)
        if taking is not None:
            value = argument[taking.end() :] or next(arguments, "")
            if taking.group() in "cm":
                return value if taking.group() == "m" else ""
    return ""
