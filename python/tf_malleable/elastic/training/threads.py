# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Number of threads that compute one shard."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from tf_malleable.elastic.training.checks.graph_check import say
from tf_malleable.runtime import library, limits


@contextmanager
def fixed(threads: int | None) -> Iterator[None]:
    """Fix the number of threads inside each op meanwhile, whatever the process may use.

    The number of ops that run in parallel stays what the process may use. So grants, cgroups and
    set_threads() decide how many shards run in parallel.

    Args:
        threads: Number of threads inside each op; None changes nothing.
    """
    if threads is None:
        yield
        return
    if library.backend() is None:
        say(
            "TensorFlow is not malleable here, so that results may depend in their last bits on"
            " how many threads a member has"
        )
        yield
        return
    override = limits.fix_intra(threads)
    try:
        yield
    finally:
        override.end()
