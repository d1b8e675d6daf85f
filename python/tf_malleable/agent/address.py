# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Where the controller is, and what a job tells it about itself.

`tfm run` leaves both in one environment variable, for the program that it starts
and for every program that this one starts.
"""

from __future__ import annotations

import json
import math
import os
from collections.abc import Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any, Final

from tf_malleable.model import Shape

SOCKET: Final = "TF_MALLEABLE_SOCKET"
JOIN: Final = "TF_MALLEABLE_JOIN"

# The longest that the controller takes, in its messages.
_MOST_CORES: Final = 65536
_MOST_PRIORITY: Final = 1000
_MOST_WEIGHT: Final = 1000
_LONGEST_NAME: Final = 200
_MOST_ARGUMENTS: Final = 256
# Cut to this, a command also fits into an environment variable.
_LONGEST_COMMAND: Final = 4096


def default_socket() -> Path:
    """Return the controller's socket where no other was named.

    That is what TF_MALLEABLE_SOCKET says, or the place that is the user's own.
    """
    if chosen := os.environ.get(SOCKET):
        return Path(chosen)
    if own := os.environ.get("XDG_RUNTIME_DIR"):
        return Path(own, "tf_malleable", "controller.sock")
    if os.getuid() == 0:
        return Path("/run/tf_malleable/controller.sock")
    return Path(f"/tmp/tf_malleable-{os.getuid()}/controller.sock")


def readable(text: str) -> str:
    """Return text with a question mark for each byte of it that is not UTF-8."""
    return text.encode(errors="replace").decode()


def name_for_people(name: str) -> str:
    """Return a job's name as the controller takes it: printable and not too long."""
    return "".join(c if c.isprintable() else "?" for c in readable(name))[:_LONGEST_NAME]


def command_for_people(command: Sequence[str]) -> tuple[str, ...]:
    """Return a command as it is shown: no longer than a few thousand characters."""
    shown = []
    room = _LONGEST_COMMAND
    for argument in command[:_MOST_ARGUMENTS]:
        if room <= 0:
            break
        shown.append(readable(argument)[:room])
        room -= len(argument) + 1
    return tuple(shown)


@dataclass(frozen=True)
class Join:
    """Which controller to join, and as what job.

    Attributes:
        socket: Path of the controller's socket.
        name: What people call the job; speeds are learned by it.
        command: The program and its arguments, for people to read.
        min: With fewer cores it does not run.
        preferred: What it asks for; None for max.
        max: More would not help; None for all of the machine.
        priority: Higher goes first, in policies that look at it; -1000 … 1000.
        weight: Share against others, in policies that look at it; above 0, at most 1000.

    Raises:
        ValueError: One of them is not what it should be.
    """

    socket: str
    name: str
    command: tuple[str, ...] = ()
    min: int = 1
    preferred: int | None = None
    max: int | None = None
    priority: int = 0
    weight: float = 1.0

    def __post_init__(self) -> None:
        if not isinstance(self.socket, str) or not self.socket:
            raise ValueError(f"socket must be a path, not {self.socket!r}")
        if not isinstance(self.name, str) or not 1 <= len(self.name) <= _LONGEST_NAME:
            raise ValueError(
                f"name must be a text of 1 to {_LONGEST_NAME} characters, not {self.name!r}"
            )
        if not all(isinstance(argument, str) for argument in self.command):
            raise ValueError(f"command must be a list of texts, not {self.command!r}")
        _check_integer("min", self.min, 1, _MOST_CORES)
        for name, cores in (("preferred", self.preferred), ("max", self.max)):
            if cores is not None:
                _check_integer(name, cores, 1, _MOST_CORES)
        _check_integer("priority", self.priority, -_MOST_PRIORITY, _MOST_PRIORITY)
        if not _is_number(self.weight) or not 0 < self.weight <= _MOST_WEIGHT:
            raise ValueError(
                f"weight must be a number above 0, at most {_MOST_WEIGHT}, not {self.weight!r}"
            )
        self._check_shape()

    def _check_shape(self) -> None:
        asked = self.preferred if self.preferred is not None else self.max
        most = self.max if self.max is not None else asked
        if asked is not None and most is not None:
            Shape(self.min, asked, most)

    def fields(self) -> dict[str, Any]:
        """Return what is said about the job, as a submission has it: no None, no socket."""
        said = asdict(self)
        del said["socket"]
        return {name: value for name, value in said.items() if value is not None}

    def encode(self) -> str:
        """Return the text for the environment variable."""
        return json.dumps({"socket": self.socket, **self.fields()})

    @classmethod
    def decode(cls, text: str) -> Join:
        """Return what encode() made this text from.

        Fields that are not known are passed over: a newer `tfm` may have set them.

        Raises:
            ValueError: The text is no such thing; the sentence says what is wrong.
        """
        try:
            found = json.loads(text)
        except ValueError:
            found = None
        if not isinstance(found, dict):
            raise ValueError(f"{JOIN} must be JSON as 'tfm run' writes it, not {_short(text)}")
        known = {field.name for field in fields(cls)}
        said = {name: value for name, value in found.items() if name in known and value is not None}
        command = said.get("command", [])
        try:
            for name in ("socket", "name"):
                if name not in said:
                    raise ValueError(f"{name} is missing")
            if not isinstance(command, list):
                raise ValueError(f"command must be a list of texts, not {command!r}")
            return cls(**{**said, "command": tuple(command)})
        except ValueError as error:
            raise ValueError(
                f"{JOIN} must be JSON as 'tfm run' writes it, not {_short(text)}: {error}"
            ) from None


def join_asked_for() -> Join | None:
    """Return the job that `tfm run` made of this process, if it did.

    Raises:
        ValueError: TF_MALLEABLE_JOIN is not what `tfm run` writes.
    """
    text = os.environ.get(JOIN, "")
    return Join.decode(text) if text else None


def _check_integer(name: str, value: object, lowest: int, highest: int) -> None:
    if not isinstance(value, int) or isinstance(value, bool) or not lowest <= value <= highest:
        raise ValueError(f"{name} must be an integer from {lowest} to {highest}, not {value!r}")


def _is_number(value: object) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value)


def _short(text: str) -> str:
    return repr(text if len(text) <= 80 else f"{text[:77]}…")
