# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Wire form of a grant: one line of the stream that a job's processes read."""

from __future__ import annotations

from tf_malleable.model import job_state
from tf_malleable.quick_dataclass import dataclass

TYPE_CHECKING = False  # As in typing, which takes longer to load than all of this.
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any, TypeGuard


@dataclass(frozen=True)
class GrantLine:
    """One line of the stream of grants.

    Attributes:
        serial: Serial number to acknowledge the grant with; grows with every change.
        state: State of the job.
        cpus: CPUs that the job may use.
        lent: CPUs of the job that it currently lends to other jobs.
        confined: True if the controller confines the job to these CPUs itself, because it is a
            container. Its processes set their limits, but not their affinity.
        gpus: Numbers of the GPUs that the job may use, in PCI bus order; None if the
            controller shares out none.
    """

    serial: int
    state: job_state.JobState
    cpus: list[int]
    lent: list[int]
    confined: bool = False
    gpus: list[int] | None = None

    @classmethod
    def read(cls, line: Mapping[str, Any]) -> GrantLine:
        """Return the grant in this JSON object.

        Raises:
            ValueError: The object is not a grant.
        """
        serial, state = line.get("serial"), line.get("state")
        confined = line.get("confined", False)
        if not _is_number(serial) or not _is_state(state) or not isinstance(confined, bool):
            raise ValueError(f"this line is not a grant: {line!r}")
        gpus = None if line.get("gpus") is None else _numbers(line, "gpus")
        return cls(serial, state, _numbers(line, "cpus"), _numbers(line, "lent"), confined, gpus)


def _numbers(line: Mapping[str, Any], name: str) -> list[int]:
    numbers = line.get(name)
    if not isinstance(numbers, list) or not all(map(_is_number, numbers)):
        raise ValueError(f"this line is not a grant: {line!r}")
    return numbers


def _is_number(value: object) -> TypeGuard[int]:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def _is_state(value: object) -> TypeGuard[job_state.JobState]:
    return value in job_state.STATES
