# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""The limit of a process, and reports of it until the program is ended."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable


def limit(_: object = None) -> int | None:
    """Return the intra-op limit of this process's TensorFlow; None if that is not malleable."""
    import tensorflow as tf

    tf.constant(1.0) + 1
    malleable = sys.modules.get("tf_malleable")
    return None if malleable is None else malleable.get_threads().intra


def report(ask: Callable[[], object]) -> None:
    """Print what a function returns, as JSON, whenever it has changed. Never returns."""
    before: object = ()
    while True:
        now = ask()
        if now != before:
            print(json.dumps(now), flush=True)
        before = now
        time.sleep(0.02)
