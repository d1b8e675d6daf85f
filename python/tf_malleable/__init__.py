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

import importlib.util as _util
import os as _os
import sys as _sys

from tf_malleable.agent import cgroup_follower as _following
from tf_malleable.agent import join as _joining
from tf_malleable.agent.cgroup_follower import follow_cgroup
from tf_malleable.agent.join import join
from tf_malleable.agent.steps import progress
from tf_malleable.api.schema import join as _join
from tf_malleable.model import ControllerError, NotMalleableError, Pool, Threads
from tf_malleable.model.version import __version__ as __version__
from tf_malleable.runtime import config_threading as _config_threading
from tf_malleable.runtime import environment as _environment
from tf_malleable.runtime import library as _library
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

__all__ = [
    "ControllerError",
    "NotMalleableError",
    "Pool",
    "Threads",
    "backend",
    "follow_cgroup",
    "get_threads",
    "join",
    "pools",
    "progress",
    "set_cpuset",
    "set_pool_threads",
    "set_threads",
    "threads",
    "wait_settled",
]


def _start() -> None:
    """Make this program's TensorFlow malleable, and the program part of its job."""
    job = _join.join_asked_for()
    follow = _environment.follow_cgroup()
    _library.load()
    if follow and backend() is not None:
        _following.follow_from_the_start()
    if backend() is not None:
        _config_threading.install()

    if _util.find_spec("threadpoolctl") is not None:
        from tf_malleable.runtime import threadpools

        threadpools.register()

    if job is not None:
        _joining.start_agent(job)

    if "TF_MALLEABLE_ELASTIC" in _os.environ:
        from tf_malleable.elastic import worker

        worker.start()


# The tfm command is not part of the job that calls it, and works beside any TensorFlow.
if "tf_malleable_cli" not in _sys.modules:
    _start()
