# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""The environment variables users may set, read and checked in one place."""

from __future__ import annotations

import os

MAX_THREADS = "TF_MALLEABLE_MAX_THREADS"
THREADS = "TF_MALLEABLE_THREADS"

# PoolRegistry::kMaxThreadsCeiling in cc/limits.
CEILING = 1024


def _read_count(variable: str, highest: int) -> int | None:
    text = os.environ.get(variable, "")
    if not text:
        return None
    if not (text.isascii() and text.isdigit() and 1 <= int(text) <= highest):
        raise ValueError(f"{variable} must be an integer from 1 to {highest}, not {text!r}")
    return int(text)


def max_threads() -> int:
    """Return how many threads a pool can grow to: capacity of pools built later.

    Raises:
        ValueError: TF_MALLEABLE_MAX_THREADS is not an integer from 1 to 1024.
    """
    value = _read_count(MAX_THREADS, CEILING)
    return value if value is not None else min(os.cpu_count() or 1, CEILING)


def first_threads() -> int | None:
    """Return the limit to start with, or None for what TensorFlow is started with.

    Raises:
        ValueError: TF_MALLEABLE_THREADS is not an integer from 1 to max_threads().
    """
    return _read_count(THREADS, max_threads())
