# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Brings the C ABI into the process: from the overlay or a patched TensorFlow.

The overlay works by being there first: the dynamic loader binds TensorFlow's
libraries to its functions when they are loaded. Hence ``load()`` runs when
tf_malleable is imported, and comes too late if a stock TensorFlow is there already.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final, Literal

from tf_malleable.model import NotMalleableError
from tf_malleable.runtime import _native, elf, environment
from tf_malleable.runtime._build import TENSORFLOW_VERSION
from tf_malleable.runtime.tensorflow_install import TensorFlow, find_tensorflow

Backend = Literal["overlay", "patched"]

FRAMEWORK: Final = "libtensorflow_framework.so.2"
# A framework library that has it was built with the patches.
_ANY_FUNCTION: Final = "tfm_abi_version"
OVERLAY: Final = Path(__file__).parent / "libtf_malleable_overlay.so"
REBUILD: Final = "pip install --force-reinstall --no-deps --no-cache-dir tf_malleable"

_TOO_LATE: Final = (
    "tf_malleable was imported after tensorflow, too late to take over its threads:"
    " import tf_malleable first, or start the program with 'tfm run -- python …'"
)

_backend: Backend | None = None


def load() -> None:
    """Make the C ABI available, once; do nothing if TensorFlow came first.

    Raises:
        ImportError: tf_malleable was built against another TensorFlow.
        ValueError: One of our environment variables is not what it should be.
    """
    global _backend
    if _backend is not None:
        return
    environment.max_threads()
    threads = environment.first_threads()
    found = find_tensorflow()
    if _native.exports(FRAMEWORK):
        _native.load(FRAMEWORK, in_front=False)
    elif _native.is_loaded(FRAMEWORK) and not _native.is_loaded(str(OVERLAY)):
        return
    elif found is not None and elf.exports(found.directory / FRAMEWORK, _ANY_FUNCTION):
        _native.load(str(found.directory / FRAMEWORK), in_front=False)
    else:
        _check_version(found)
        _native.load(str(OVERLAY), in_front=True)
    _backend = _native.backend()
    if threads is not None:
        _native.set_threads(threads, threads)


def _check_version(found: TensorFlow | None) -> None:
    if found is not None and found.version != TENSORFLOW_VERSION:
        raise ImportError(
            f"tf_malleable was built against TensorFlow {TENSORFLOW_VERSION} but"
            f" {found.version} is installed; rebuild it: {REBUILD}"
        )


def backend() -> Backend | None:
    """Return what makes TensorFlow's threads malleable in this process.

    ``"overlay"``: our library in front of the stock wheel. ``"patched"``: the
    TensorFlow in this process was built with our patches. None: neither, because
    tensorflow was imported before tf_malleable.
    """
    return _backend


def require() -> None:
    """Raise NotMalleableError unless the C ABI is there."""
    if _backend is None:
        raise NotMalleableError(_TOO_LATE)
