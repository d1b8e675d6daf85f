# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Import hook that loads tf_malleable right before tensorflow, in programs of `tfm run`.

In programs of a job, it is loaded with other libraries, too, whose progress it counts.

Two ways lead here. A .pth file beside tf_malleable imports this module at the start of Python if
TF_MALLEABLE_PRELOAD is set: scripts and launchers may replace PYTHONPATH, and python -E ignores
it. And the sitecustomize of this folder, which `tfm run` puts on PYTHONPATH, imports it in every
other Python, whatever its version and packages. The file must therefore work in all of them and
never stop one: if tf_malleable cannot be loaded, it says so once and the program runs on stock
TensorFlow, unless TF_MALLEABLE_REQUIRED forbids that.
"""

import os
import sys

# Libraries with threads of their own, by a module that they import as they are loaded. Programs
# look for jax and torch without using them.
_OTHERS = {
    "jaxlib.xla_client": "JAX",
    "onnxruntime.capi.onnxruntime_pybind11_state": "onnxruntime",
    "torch._C": "PyTorch",
}
# Modules of which one is imported by each library whose progress is counted in programs of a job,
# once its C++ is loaded: ours must not choose the libstdc++ for that.
_COUNTED = (
    "torch.optim.optimizer",
    "lightgbm.engine",
    "xgboost.training",
    "sklearn.cluster._k_means_lloyd",
    "sklearn.ensemble._hist_gradient_boosting.histogram",
    "numba.np.ufunc.omppool",
)
# Whether the OpenMP hook was loaded before this Python.
_HAS_HOOK = "libtf_malleable_openmp" in os.environ.get("LD_PRELOAD", "")
# TensorFlow Lite's converter and Keras's callbacks import JAX wherever it is installed.
_PROBING = ("tensorflow.", "keras.src.callbacks.")


def _load():
    """Load tf_malleable; return why that is impossible, or an empty string."""
    try:
        import tf_malleable  # noqa: F401
    except Exception as error:
        return "tfm run: not malleable here: {0}".format(error)
    return ""


def _say_what_threads_cannot_do(library):
    """Say that a library's threads are its own, if they are not confined to what was asked for."""
    threads = os.environ.get("TF_MALLEABLE_THREADS", "")
    by_controller = os.environ.get("TF_MALLEABLE_JOIN")
    if _HAS_HOOK and library == "PyTorch":
        return
    if by_controller or not threads.isdigit() or not hasattr(os, "sched_getaffinity"):
        return
    if len(os.sched_getaffinity(0)) > int(threads):
        sys.stderr.write(
            "tfm run: --threads {0} does not limit {1}, which has threads of its own: confine it"
            " with taskset, or start a controller, which confines every process of a job to its"
            " CPUs\n".format(threads, library)
        )


def _is_probe():
    """Return whether a library is imported by one that imports whatever is there, and uses none."""
    return any(
        getattr(getattr(module, "__spec__", None), "_initializing", False)
        for name, module in list(sys.modules.items())
        if (name + ".").startswith(_PROBING)
    )


def _is_look_up(caller):
    """Return whether a program only asks if a module exists, by importlib.util.find_spec().

    So do programs that compute with PyTorch and can use TensorFlow, too.

    Args:
        caller: Frame of what has called an import hook: importlib's function for all hooks.
    """
    asker = caller.f_back
    return asker is not None and asker.f_globals.get("__name__") == "importlib.util"


def _threadpoolctl(path):
    """Return the spec of threadpoolctl, which then tells the OpenMP hook what it sets."""
    from importlib.machinery import PathFinder

    spec = PathFinder.find_spec("threadpoolctl", path)
    if spec is not None and spec.loader is not None:
        execute = spec.loader.exec_module

        def exec_module(module):
            execute(module)
            try:
                import _tf_malleable_threadpoolctl

                _tf_malleable_threadpoolctl.install(module)
            except Exception as error:
                sys.stderr.write(
                    "tfm run: what threadpoolctl sets is not known: {0}\n".format(error)
                )

        spec.loader.exec_module = exec_module
    return spec


class _BeforeTensorFlow(object):
    """An import hook that notices 'import tensorflow' and 'import torch'.

    It finds no module, but threadpoolctl, which then tells the OpenMP hook what it sets.
    """

    def __init__(self):
        self.is_done = False

    def find_spec(self, name, path=None, target=None):
        # It stays in sys.meta_path, over which the interpreter iterates at this moment.
        # A submodule's import is the first if the program has loaded what it has looked up.
        is_tensorflow = name == "tensorflow" or name.startswith("tensorflow.")
        if is_tensorflow and not self.is_done and not _is_look_up(sys._getframe(1)):
            self.is_done = True
            problem = _load()
            if problem and os.environ.get("TF_MALLEABLE_REQUIRED") == "1":
                raise SystemExit(problem)
            if problem:
                sys.stderr.write(problem + "\n")
        elif name == "threadpoolctl" and _HAS_HOOK:
            return _threadpoolctl(path)
        elif name in _OTHERS and not _is_probe():
            _say_what_threads_cannot_do(_OTHERS.pop(name))
        elif name in _COUNTED and "TF_MALLEABLE_JOIN" in os.environ and not _is_probe():
            problem = _load()  # Nothing is counted then.
            return None if problem else self._found_before(name, path, target)
        return None

    def _found_before(self, name, path, target):
        """Return the spec from a hook that was put before this one since the import began."""
        for hook in sys.meta_path[: sys.meta_path.index(self)]:
            spec = hook.find_spec(name, path, target)
            if spec is not None:
                return spec
        return None

    def find_module(self, name, path=None):
        """Do the same in Python 2.7 and 3.3."""
        return self.find_spec(name)


sys.meta_path.insert(0, _BeforeTensorFlow())
