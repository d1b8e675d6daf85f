# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Job arrays: one job for each index of a text such as 1-20%4."""

from __future__ import annotations

import os
import re
import sys
import time
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

import click

from tf_malleable.api.schema.job_names import LONGEST_NAME
from tf_malleable.api.schema.job_request import MOST_INDICES, JobRequest
from tf_malleable.cli.messages import say

ARRAY_INDEX: Final = "TF_MALLEABLE_ARRAY_INDEX"
_PART: Final = re.compile(r"([0-9]{1,9})(?:-([0-9]{1,9}))?")
_LIMIT: Final = re.compile(r"[0-9]{1,9}")


@dataclass(frozen=True)
class Array:
    """The indices of an array.

    Attributes:
        indices: The indices, without duplicates; at least one.
        at_once: Maximum number of the array's jobs that run at once; None for all.
    """

    indices: tuple[int, ...]
    at_once: int | None = None

    @classmethod
    def parse(cls, text: str) -> Array:
        """Return the array of a text such as 1-20, 1,3,7-9 or 1-20%4.

        Raises:
            ValueError: The text has another form, or is too large; the message continues "must".
        """
        listed, percent, most = text.partition("%")
        ranges = []
        for part in listed.split(","):
            found = _PART.fullmatch(part)
            if found is None or (percent and not _LIMIT.fullmatch(most)):
                raise ValueError(f"be indices such as 1-20, 1,3,7 or 1-20%4, not {text!r}")
            first = int(found[1])
            last = first if found[2] is None else int(found[2])
            if last < first:
                raise ValueError(f"begin each range with its lowest index, not {part!r}")
            ranges.append(range(first, last + 1))
        if percent and not int(most):
            raise ValueError(f"let at least 1 job run at once, not {most!r} as in {text!r}")
        if sum(map(len, ranges)) > MOST_INDICES:
            raise ValueError(f"have at most {MOST_INDICES} indices, not {sum(map(len, ranges))}")
        indices = tuple(dict.fromkeys(index for each in ranges for index in each))
        at_once = int(most) if percent and int(most) < len(indices) else None
        return cls(indices, at_once)


if TYPE_CHECKING:
    _Base = click.ParamType[Array]
else:  # Generic from click 8.4 on.
    _Base = click.ParamType


class ArrayType(_Base):
    """An option whose value is an Array."""

    name = "array"

    def convert(
        self, value: object, param: click.Parameter | None, ctx: click.Context | None
    ) -> Array:
        """Return the array."""
        if isinstance(value, Array):
            return value
        try:
            return Array.parse(str(value))
        except ValueError as error:
            self.fail(f"must {error}", param, ctx)


def continue_for_each(array: Array, request: JobRequest) -> JobRequest:
    """Fork a process for each index, one after the other; the calling process exits.

    Args:
        array: Indices of the array.
        request: Request common to the jobs.

    Returns:
        In the process for an index: the request of its job. The environment has the index.

    Raises:
        OperationError: A process cannot be started.
        SystemExit: In the calling process, with 0 once all jobs are submitted. If a submission
            fails, there are no further ones, and the exit code is that of the failed one.
    """
    # Imported before the forks, so that the processes do not each load the modules.
    from tf_malleable.cli.launch import (
        attempts,
        queue,  # noqa: F401 - for the processes
    )

    key = f"{os.getpid()}-{time.time_ns()}"
    for index in array.indices:
        child = attempts.fork()
        if not child:
            os.environ[ARRAY_INDEX] = str(index)
            suffix = f"[{index}]"
            name = request.name[: LONGEST_NAME - len(suffix)] + suffix
            return replace(request, name=name, array=key, at_once=array.at_once)
        _, status = os.waitpid(child, 0)
        code = os.waitstatus_to_exitcode(status)
        if code:
            if index != array.indices[0]:
                say(f"index {index} is not submitted, nor any after it")
            sys.exit(code if code > 0 else 1)
    sys.exit(0)
