# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Job request, from any source: `tfm run`, a script, container labels, a plan."""

from __future__ import annotations

import math
from collections.abc import Mapping

from tf_malleable.api.schema.job_names import (
    LONGEST_AREA,
    LONGEST_COMMAND,
    LONGEST_NAME,
    is_area,
)
from tf_malleable.model.schedules.time_window import parse_window
from tf_malleable.model.shape import Shape
from tf_malleable.model.units import quoted
from tf_malleable.quick_dataclass import dataclass

TYPE_CHECKING = False  # As in typing, which takes longer to load than all of this.
if TYPE_CHECKING:
    from typing import Any, Final

MOST_CORES: Final = 65536
MOST_PRIORITY: Final = 1000
MOST_WEIGHT: Final = 1000
# In bytes. A smaller value is more likely a forgotten unit.
LEAST_MEM: Final = 1 << 20
MOST_MEM: Final = 1 << 50
MOST_GPUS: Final = 1024
# Number of jobs that a job may start after.
MOST_AFTER: Final = 100
LONGEST_ID: Final = 20
# Number of jobs of an array; each is a waiting process.
MOST_INDICES: Final = 1000
# A hundred years.
MOST_SECONDS: Final = 36500 * 86400
# PATH_MAX of Linux.
LONGEST_PATH: Final = 4096
# Fields that older controllers refuse, with their defaults.
_UNSAID: Final = (("gpus", 0), ("after", ()), ("after_ok", ()), ("kill_leftovers", False))

# Numeric fields of JobRequest; each has an option of `tfm run` and a container label.
ASKED: Final = ("min", "preferred", "max", "priority", "weight", "mem")


@dataclass(frozen=True)
class JobRequest:
    """Request of a job.

    Attributes:
        name: Name of the job; measured speeds are remembered by it.
        command: Program and arguments, for display.
        min: Minimum number of cores; the job does not run with fewer.
        preferred: Number of cores asked for; None for max.
        max: Maximum number of cores; None for all of the machine's.
        priority: Priority, -1000 … 1000; higher goes first.
        weight: Share relative to other jobs, if the policy uses it; above 0, at most 1000.
        mem: Upper bound of the memory needed, in bytes; None if unknown.
        gpus: Number of GPUs needed.
        time_limit: Seconds with cores after which the job is ended; None for no limit.
        expected: Expected run time in seconds; None if unknown.
        after: Ids of jobs that must have ended before this one starts.
        array: Name of the job's array, unique per user; None for none.
        at_once: Maximum number of jobs of the array that have started and not ended; None for all.
        output: Path of the output file; None if unknown.
        area: Area that the job's energy is counted for; None for the host's.
        kill_leftovers: True if processes that outlive the main process are killed; otherwise the
            job lasts until its last process has ended.
        between: Part of the day in which the job may run, in local time, such as
            ``"22:00-07:00"``; None for any time.
        days: Days on which that begins, such as ``"mon-fri"``; None for all.
        after_ok: Ids of jobs that must have ended with exit code 0 before this one starts; if one
            of them ends otherwise, this one is cancelled.
        group: Name of the job's group, which its user has chosen; None for none.
        slo: Objective of a service, such as ``"p99=50ms"``; None for none.

    Raises:
        ValueError: A value is invalid; the message says which, and what is allowed.
    """

    name: str
    command: tuple[str, ...] = ()
    min: int = 1
    preferred: int | None = None
    max: int | None = None
    priority: int = 0
    weight: float = 1.0
    mem: int | None = None
    gpus: int = 0
    time_limit: float | None = None
    expected: float | None = None
    after: tuple[str, ...] = ()
    array: str | None = None
    at_once: int | None = None
    output: str | None = None
    area: str | None = None
    kill_leftovers: bool = False
    between: str | None = None
    days: str | None = None
    after_ok: tuple[str, ...] = ()
    group: str | None = None
    slo: str | None = None

    def __post_init__(self) -> None:
        self._check_texts()
        self._check_window()
        self._check_numbers()
        most = self.max if self.max is not None else self.preferred
        if most is not None:
            self.shape(most)

    def _check_texts(self) -> None:
        if not _is_name(self.name):
            raise ValueError(
                f"name must be a string of 1 to {LONGEST_NAME} characters, not {quoted(self.name)}"
            )
        if not all(isinstance(argument, str) for argument in self.command):
            raise ValueError(f"command must be a list of strings, not {quoted(self.command)}")
        # Kept in the state file, and with the job in the history.
        if (length := sum(map(len, self.command))) > LONGEST_COMMAND:
            raise ValueError(
                f"command must have at most {LONGEST_COMMAND} characters in all, not {length}"
            )
        for name, jobs in (("after", self.after), ("after_ok", self.after_ok)):
            if not all(isinstance(job, str) for job in jobs):
                raise ValueError(f"{name} must be a list of strings, not {quoted(jobs)}")
        for name, text in (("array", self.array), ("group", self.group)):
            if text is not None and not _is_name(text):
                raise ValueError(
                    f"{name} must be a string of 1 to {LONGEST_NAME} characters, not {quoted(text)}"
                )
        if self.output is not None and not _is_path(self.output):
            raise ValueError(
                f"output must be a string of 1 to {LONGEST_PATH} characters,"
                f" not {quoted(self.output)}"
            )
        if not isinstance(self.kill_leftovers, bool):
            raise ValueError(
                f"kill_leftovers must be true or false, not {quoted(self.kill_leftovers)}"
            )
        if self.area is not None and not (isinstance(self.area, str) and is_area(self.area)):
            raise ValueError(
                f"area must be names with slashes between them, at most {LONGEST_AREA} characters"
                f" of A-Z, a-z, 0-9, _, . and -, not {quoted(self.area)}"
            )

        if self.slo is not None:
            from tf_malleable.model.services.slo import parse_slo  # Few jobs are services.

            parse_slo(self.slo)

    def _check_window(self) -> None:
        if self.between is not None:
            parse_window(self.between, self.days)
        elif self.days is not None:
            raise ValueError(
                f"days are those of a time window: give between, too, not days alone"
                f" ({quoted(self.days)})"
            )

    def _check_numbers(self) -> None:
        _check_integer("min", self.min, 1, MOST_CORES)
        for name, cores in (("preferred", self.preferred), ("max", self.max)):
            if cores is not None:
                _check_integer(name, cores, 1, MOST_CORES)
        _check_integer("priority", self.priority, -MOST_PRIORITY, MOST_PRIORITY)
        if not _is_number(self.weight) or not 0 < self.weight <= MOST_WEIGHT:
            raise ValueError(
                f"weight must be a number above 0, at most {MOST_WEIGHT}, not {quoted(self.weight)}"
            )
        if self.mem is not None:
            _check_integer("mem", self.mem, LEAST_MEM, MOST_MEM)
        _check_integer("gpus", self.gpus, 0, MOST_GPUS)
        if self.at_once is not None:
            _check_integer("at_once", self.at_once, 1, MOST_INDICES)
        for name, seconds in (("time_limit", self.time_limit), ("expected", self.expected)):
            if seconds is not None and not (_is_number(seconds) and 0 < seconds <= MOST_SECONDS):
                raise ValueError(
                    f"{name} must be a number above 0, at most {MOST_SECONDS},"
                    f" not {quoted(seconds)}"
                )

    def shape(self, most: int) -> Shape:
        """Return the shape of the job on a machine with this many cores.

        Raises:
            ValueError: The numbers contradict each other or the machine.
        """
        most = self.max if self.max is not None else most
        return Shape(self.min, self.preferred if self.preferred is not None else most, most)

    def said(self) -> dict[str, Any]:
        """Return the fields that are not None, as in the body of a submission.

        `gpus`, `after`, `after_ok` and `kill_leftovers` are left out at their defaults, as older
        controllers refuse the fields.
        """
        values = ((name, getattr(self, name)) for name in self.__match_args__)
        return {
            name: value
            for name, value in values
            if value is not None and (name, value) not in _UNSAID
        }

    @classmethod
    def read(cls, said: Mapping[str, Any]) -> JobRequest:
        """Return the request that said() turned into these fields. Unknown fields are ignored.

        Raises:
            ValueError: A field is missing or invalid; the message says which.
        """
        known = set(cls.__match_args__)
        values = {name: said[name] for name in known & said.keys() if said[name] is not None}
        if "name" not in values:
            raise ValueError("name is missing")
        for name in ("command", "after", "after_ok"):
            listed = values.get(name, [])
            if not isinstance(listed, list | tuple):
                raise ValueError(f"{name} must be a list of strings, not {quoted(listed)}")
            values[name] = tuple(listed)
        return cls(**values)


def _check_integer(name: str, value: object, lowest: int, highest: int) -> None:
    if not isinstance(value, int) or isinstance(value, bool) or not lowest <= value <= highest:
        raise ValueError(
            f"{name} must be an integer from {lowest} to {highest}, not {quoted(value)}"
        )


def _is_name(value: object) -> bool:
    return isinstance(value, str) and 1 <= len(value) <= LONGEST_NAME


def _is_path(value: object) -> bool:
    return isinstance(value, str) and 1 <= len(value) <= LONGEST_PATH


def _is_number(value: object) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value)
