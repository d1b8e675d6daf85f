# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Imports in less time, for processes of tests that import TensorFlow."""

from __future__ import annotations

import gc
import sys
from collections.abc import Iterator
from contextlib import contextmanager

# Keras imports these where it finds them, which takes a third of the import of TensorFlow.
_UNNEEDED = ("matplotlib", "sklearn")


@contextmanager
def quick_imports() -> Iterator[None]:
    """Import what the block imports without what no test needs.

    What an import makes stays: looking for garbage among it takes a third of the time, too.
    """
    sys.modules.update(dict.fromkeys(_UNNEEDED))  # type: ignore[arg-type]
    gc.disable()
    try:
        yield
    finally:
        gc.enable()
        for name in _UNNEEDED:
            if name in sys.modules and sys.modules[name] is None:
                del sys.modules[name]
