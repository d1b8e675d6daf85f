# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Makes every Python started by `tfm run` load tf_malleable before tensorflow.

`tfm run` puts this folder on PYTHONPATH, so every Python it starts, directly or not,
imports this file, whatever its version and packages. The file must therefore work in
all of them and never stop one: if tf_malleable cannot be loaded, it says so once and
the script runs on stock TensorFlow.
"""

import os
import sys


class _BeforeTensorFlow(object):
    """An import hook that finds no module, but notices 'import tensorflow'."""

    def __init__(self):
        self.is_done = False

    def find_spec(self, name, path=None, target=None):
        # It stays in sys.meta_path, over which the interpreter iterates at this moment.
        if name == "tensorflow" and not self.is_done:
            self.is_done = True
            try:
                import tf_malleable  # noqa: F401
            except Exception as error:
                sys.stderr.write("tfm run: not malleable here: {0}\n".format(error))
        elif name == "jaxlib.xla_client":  # Not jax, which programs look for without using it.
            _say_what_threads_cannot_do()
        return None

    def find_module(self, name, path=None):
        """Do the same in Python 2.7 and 3.3."""
        return self.find_spec(name)


def _say_what_threads_cannot_do():
    """Say that JAX's threads are its own, if they are not confined to what was asked for."""
    threads = os.environ.get("TF_MALLEABLE_THREADS", "")
    by_controller = os.environ.get("TF_MALLEABLE_JOIN")
    if by_controller or not threads.isdigit() or not hasattr(os, "sched_getaffinity"):
        return
    if len(os.sched_getaffinity(0)) > int(threads):
        sys.stderr.write(
            "tfm run: --threads {0} does not limit JAX, which has threads of its own: confine it"
            " with taskset, or start a controller, which confines every process of a job to its"
            " CPUs\n".format(threads)
        )


def _run_hidden_sitecustomize():
    """Run the sitecustomize that this one shadows, if any."""
    here = os.path.dirname(os.path.abspath(__file__))
    ours = sys.modules.pop("sitecustomize", None)
    without_us = [entry for entry in sys.path if os.path.abspath(entry) != here]
    sys.path[:] = without_us
    try:
        import sitecustomize  # noqa: F401
    except ImportError:
        sys.modules["sitecustomize"] = ours


sys.meta_path.insert(0, _BeforeTensorFlow())
_run_hidden_sitecustomize()
