# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Plain data types used by the rest of the package. No I/O."""

from tf_malleable.model.allocation import NO_GRANT, Allocation, Grant
from tf_malleable.model.cpuset import Cpuset, format_cpuset, parse_cpuset
from tf_malleable.model.errors import ControllerError, NotMalleableError, OperationError
from tf_malleable.model.job import Job, JobState, Rate
from tf_malleable.model.machine import Cpu, Machine
from tf_malleable.model.pool import Pool, PoolKind, Threads
from tf_malleable.model.power import AreaLimit, Budget, PowerCurve, PowerLimit
from tf_malleable.model.process import ProcessId
from tf_malleable.model.shape import Shape

__all__ = [
    "NO_GRANT",
    "Allocation",
    "AreaLimit",
    "Budget",
    "ControllerError",
    "Cpu",
    "Cpuset",
    "Grant",
    "Job",
    "JobState",
    "Machine",
    "NotMalleableError",
    "OperationError",
    "Pool",
    "PoolKind",
    "PowerCurve",
    "PowerLimit",
    "ProcessId",
    "Rate",
    "Shape",
    "Threads",
    "format_cpuset",
    "parse_cpuset",
]
