# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Display form of names and commands of jobs."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from tf_malleable.model.units import printable

TYPE_CHECKING = False  # As in typing, which takes longer to load than all of this.
if TYPE_CHECKING:
    from typing import Final

LONGEST_NAME: Final = 200
LONGEST_AREA: Final = 128
AREA: Final = r"[A-Za-z0-9_.-]+(/[A-Za-z0-9_.-]+)*"
"""Regular expression of areas: names with slashes between them, the largest area first."""
MOST_ARGUMENTS: Final = 256
LONGEST_COMMAND: Final = 4096
"""Characters of a command with its arguments; they also fit into an environment variable."""

_IN_ARRAY: Final = re.compile(r"(?P<base>.+)\[[0-9]+\]", re.DOTALL)
_PYTHON: Final = re.compile(r"(python|pypy)[0-9.]*")


def is_area(text: str) -> bool:
    """Return whether a text names an area that power is counted for."""
    return len(text) <= LONGEST_AREA and re.fullmatch(AREA, text) is not None


def readable(text: str) -> str:
    """Return the text with a question mark for each byte that is not UTF-8."""
    return text.encode(errors="replace").decode()


def printable_name(name: str) -> str:
    """Return the name made printable and short enough for the controller."""
    return printable(readable(name))[:LONGEST_NAME]


def shortened_command(command: Sequence[str]) -> tuple[str, ...]:
    """Return the command for display, cut to at most 4096 characters and 256 arguments."""
    shown = []
    room = LONGEST_COMMAND
    for argument in command[:MOST_ARGUMENTS]:
        if room <= 0:
            break
        shown.append(readable(argument)[:room])
        room -= len(argument) + 1
    return tuple(shown)


def array_base(name: str) -> str | None:
    """Return ``"fold"`` for ``"fold[3]"``, the name of a job of an array; None for other names."""
    found = _IN_ARRAY.fullmatch(name)
    return found["base"] if found else None


def default_name(command: Sequence[str]) -> str:
    """Return ``"train.py"`` for ``python train.py``, ``"pkg.mod"`` for ``python -m pkg.mod``.

    For other programs it is the program's name; for ``tfm elastic local … -- python train.py``
    it is the default name of the command after ``--``.
    """
    program = _base_name(command[0])
    if program == "tfm" and "--" in command[:-1]:
        return default_name(command[command.index("--") + 1 :])
    script = _script(iter(command[1:])) if _PYTHON.fullmatch(program) else ""
    return printable_name(script or program or "?")


def _base_name(path: str) -> str:
    """Return the last component of a path. (PurePath is slow to load.)"""
    return next((name for name in reversed(path.split("/")) if name not in ("", ".")), "")


def _script(arguments: Iterator[str]) -> str:
    for argument in arguments:
        if not argument.startswith("-"):
            return _base_name(argument)
        # Short options may be joined (-uW ignore). These four take the rest of the argument
        # or the next one as their value.
        taking = None if argument.startswith("--") else re.search("[cmWX]", argument)
        if taking is not None:
            value = argument[taking.end() :] or next(arguments, "")
            if taking.group() in "cm":
                return value if taking.group() == "m" else ""
    return ""
