# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Change how many threads a running TensorFlow uses.

Import this package before tensorflow::

    import tf_malleable as tfm
    import tensorflow as tf

    tfm.set_threads(1)          # takes effect at once, also during fit()
    with tfm.threads(4): …      # for a while

or leave the script unchanged and start it with ``tfm run -- python script.py``.

If a controller divides the machine among several programs, ``tfm run`` makes the
script one of its jobs. So does ``tfm.join()``, called by the script.
"""

import os as _os
import sys as _sys
from importlib import import_module as _import_module

TYPE_CHECKING = False  # As in typing, which takes a command longer to load than this package.
if TYPE_CHECKING:
    from tf_malleable.agent.cgroup_follower import follow_cgroup
    from tf_malleable.agent.join import join
    from tf_malleable.agent.middleware import ASGIMiddleware, WSGIMiddleware
    from tf_malleable.agent.request_latency import request
    from tf_malleable.agent.steps import progress
    from tf_malleable.model import ControllerError, NotMalleableError, OpenMPLibrary, Pool, Threads
    from tf_malleable.model.version import __version__ as __version__
    from tf_malleable.runtime.cpuset import set_cpuset
    from tf_malleable.runtime.library import backend
    from tf_malleable.runtime.limits import (
        get_threads,
        pools,
        set_pool_threads,
        set_threads,
        threads,
        wait_settled,
    )
    from tf_malleable.runtime.openmp import openmp_libraries

__all__ = [
    "ASGIMiddleware",
    "ControllerError",
    "NotMalleableError",
    "OpenMPLibrary",
    "Pool",
    "Threads",
    "WSGIMiddleware",
    "backend",
    "follow_cgroup",
    "get_threads",
    "join",
    "openmp_libraries",
    "pools",
    "progress",
    "request",
    "set_cpuset",
    "set_pool_threads",
    "set_threads",
    "threads",
    "wait_settled",
]


# Modules of the public names, which are imported when they are first used: a tfm command needs
# none of them, and starts in half the time.
_MODULES = {
    "agent.cgroup_follower": ("follow_cgroup",),
    "agent.join": ("join",),
    "agent.middleware": ("ASGIMiddleware", "WSGIMiddleware"),
    "agent.request_latency": ("request",),
    "agent.steps": ("progress",),
    "model": ("ControllerError", "NotMalleableError", "OpenMPLibrary", "Pool", "Threads"),
    "model.version": ("__version__",),
    "runtime.cpuset": ("set_cpuset",),
    "runtime.library": ("backend",),
    "runtime.limits": (
        "get_threads",
        "pools",
        "set_pool_threads",
        "set_threads",
        "threads",
        "wait_settled",
    ),
    "runtime.openmp": ("openmp_libraries",),
}


def __getattr__(name: str) -> object:
    for module, names in _MODULES.items():
        if name in names:
            found: object = getattr(_import_module(f"tf_malleable.{module}"), name)
            globals()[name] = found
            return found
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})


# The tfm command is not part of the job that calls it, and works beside any TensorFlow.
if "tf_malleable_cli" not in _sys.modules:
    from tf_malleable.agent.start import start as _start

    _start()
    if "TF_MALLEABLE_ELASTIC" in _os.environ:
        from tf_malleable.elastic import worker as _worker

        _worker.start()
