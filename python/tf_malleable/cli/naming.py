# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""What a job is called if its user does not say."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import PurePath

from tf_malleable.agent.address import name_for_people

_PYTHON = re.compile(r"(python|pypy)[0-9.]*")


def default_name(command: Sequence[str]) -> str:
    """Return ``"train.py"`` for ``python train.py``, ``"pkg.mod"`` for ``python -m pkg.mod``.

    For any other program its own name.
    """
    program = PurePath(command[0]).name
    script = _script(iter(command[1:])) if _PYTHON.fullmatch(program) else ""
    return name_for_people(script or program or "?")


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
