# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Description of command-line options, and the options for the requests of a job.

Without click, as `tfm run` reads ordinary command lines before that could be loaded.
"""

from __future__ import annotations

import os

from tf_malleable.quick_dataclass import dataclass

TYPE_CHECKING = False  # As in typing, which takes longer to load than all of this.
if TYPE_CHECKING:
    from typing import Final, Literal

    Kind = Literal["int", "float", "text", "path", "size", "duration", "array", "flag", "switch"]


@dataclass(frozen=True)
class CommandOption:
    """An option.

    Attributes:
        name: Long name, without dashes.
        help: Description, for the user.
        kind: Kind of the value. A flag has none; a switch has none, and ``--no-NAME`` turns it off.
        metavar: Name of the value in the help; None for a flag or switch.
        default: Value if the option is not given.
        multiple: Whether the option can be repeated; its value is then a tuple.
    """

    name: str
    help: str
    kind: Kind = "flag"
    metavar: str | None = None
    default: object = None
    multiple: bool = False

    @property
    def initial(self) -> object:
        """Value if the option is not given, and no setting exists."""
        if self.kind == "flag":
            return False
        return () if self.multiple else self.default

    @property
    def variable(self) -> str:
        """Name of the parameter of the command."""
        return self.name.replace("-", "_")


def parse_value(kind: Kind, text: str) -> object:
    """Return the value of an option.

    Raises:
        ValueError: The text is no such value, or its kind needs click.
    """
    if kind in ("size", "duration"):
        from tf_malleable.model.units import parse_duration, parse_size

        return parse_size(text) if kind == "size" else parse_duration(text)
    if kind == "int":
        return int(text)
    if kind == "float":
        return float(text)
    is_path = kind == "path" and (os.access(text, os.R_OK) or not os.path.exists(text))
    if kind == "text" or is_path:  # As click.Path().
        return text
    raise ValueError(f"not a value that can be read here: {text!r}")


JOB_OPTIONS: Final = (
    CommandOption("min", "Minimum number of cores.", "int", "N", default=1),
    CommandOption("preferred", "Preferred number of cores.  [default: max]", "int", "N"),
    CommandOption(
        "max", "Maximum number of cores; more than there are means all.  [default: all]", "int", "N"
    ),
    CommandOption(
        "priority",
        "Higher goes first; by default a point counts like arriving a minute earlier.",
        "int",
        "N",
        default=0,
    ),
    CommandOption(
        "weight",
        "Share relative to other jobs, in policies that use it.",
        "float",
        "X",
        default=1.0,
    ),
    CommandOption(
        "mem",
        "Maximum memory, such as 512M or 4G; the job starts when that much is free.",
        "size",
        "SIZE",
    ),
)
GPUS: Final = CommandOption("gpus", "Number of GPUs for this job alone.", "int", "N", default=0)
