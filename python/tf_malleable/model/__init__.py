# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Plain data types used by the rest of the package. No I/O.

Each is imported when it is first used: `tfm run` needs two of them.
"""

from importlib import import_module as _import_module

TYPE_CHECKING = False  # As in typing, which takes longer to load than all of this.
if TYPE_CHECKING:
    from tf_malleable.model.allocation import NO_GRANT, Allocation, Grant
    from tf_malleable.model.cpuset import Cpuset, format_cpuset, parse_cpuset
    from tf_malleable.model.errors import ControllerError, NotMalleableError, OperationError
    from tf_malleable.model.job import Job, Rate
    from tf_malleable.model.job_state import JobState
    from tf_malleable.model.machine import Cpu, Machine
    from tf_malleable.model.pool import OpenMPLibrary, Pool, PoolKind, Threads
    from tf_malleable.model.power import AreaLimit, Budget, PowerCurve, PowerLimit
    from tf_malleable.model.process import ProcessId
    from tf_malleable.model.shape import Shape

_MODULES = {
    "allocation": ("NO_GRANT", "Allocation", "Grant"),
    "cpuset": ("Cpuset", "format_cpuset", "parse_cpuset"),
    "errors": ("ControllerError", "NotMalleableError", "OperationError"),
    "job": ("Job", "Rate"),
    "job_state": ("JobState",),
    "machine": ("Cpu", "Machine"),
    "pool": ("OpenMPLibrary", "Pool", "PoolKind", "Threads"),
    "power": ("AreaLimit", "Budget", "PowerCurve", "PowerLimit"),
    "process": ("ProcessId",),
    "shape": ("Shape",),
}

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
    "OpenMPLibrary",
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


def __getattr__(name: str) -> object:
    for module, names in _MODULES.items():
        if name in names:
            found: object = getattr(_import_module(f"tf_malleable.model.{module}"), name)
            globals()[name] = found
            return found
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
