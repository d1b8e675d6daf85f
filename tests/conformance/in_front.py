# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Loads the library that is tested, in a process that imports TensorFlow after this."""

from __future__ import annotations

import os
from pathlib import Path

from tests.conformance.abi import Library

VARIABLE = "TFM_TEST_LIBRARY"


def load(path: Path) -> Library:
    """Return the library; an overlay's functions are found before TensorFlow's own."""
    library = Library(path)
    if library.c.tfm_backend() == b"overlay":
        return Library(path, in_front=True)
    return library


if VARIABLE in os.environ:
    load(Path(os.environ[VARIABLE]))
