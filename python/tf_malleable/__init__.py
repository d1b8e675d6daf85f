# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Change how many threads TensorFlow uses while it runs.

Import this package before tensorflow::

    import tf_malleable as tfm
    import tensorflow as tf

    tfm.set_threads(1)          # from now on, whatever is running
    with tfm.threads(4): …      # for a while

or change nothing in the script and start it with ``tfm run -- python script.py``.
"""

import importlib.util as _util

from tf_malleable.model import NotMalleableError, Pool, Threads
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

__version__ = "0.1.0"

__all__ = [
    "NotMalleableError",
    "Pool",
    "Threads",
    "backend",
    "get_threads",
    "pools",
    "set_cpuset",
    "set_pool_threads",
    "set_threads",
    "threads",
    "wait_settled",
]

_library.load()

if _util.find_spec("threadpoolctl") is not None:
    from tf_malleable.runtime import threadpools as _threadpools

    _threadpools.register()
