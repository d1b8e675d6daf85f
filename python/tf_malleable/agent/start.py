# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Start in a program: makes its TensorFlow malleable, and the program part of its job."""

from __future__ import annotations

import importlib.util

from tf_malleable.agent import cgroup_follower
from tf_malleable.agent import join as joining
from tf_malleable.api.schema.join import join_asked_for
from tf_malleable.runtime import config_threading, environment, library


def start() -> None:
    """Load the backend, and start what the environment asks for.

    Raises:
        ImportError: There is no backend for the installed TensorFlow.
        ValueError: One of the project's environment variables is invalid.
    """
    job = join_asked_for()
    follow = environment.follow_cgroup()
    library.load()
    if library.backend() is not None:
        if follow:
            cgroup_follower.follow_from_the_start()
        config_threading.install()

    if importlib.util.find_spec("threadpoolctl") is not None:
        from tf_malleable.runtime import threadpools

        threadpools.register()

    if job is not None:
        joining.start_agent(job)
