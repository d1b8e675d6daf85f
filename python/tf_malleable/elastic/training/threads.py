# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""How many threads compute one shard."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from tf_malleable.elastic.training.checks.graph_check import say
from tf_malleable.runtime import _native, library
from tf_malleable.runtime.limits import Override


@contextmanager
def fixed(threads: int | None) -> Iterator[None]:
    """Compute each op with so many threads meanwhile, whatever the process may use.

    How many ops run side by side stays what the process may use, and so grants, cgroups and
    set_threads() decide how many shards do.

    Args:
        threads: None changes nothing.
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
    override = Override(min(threads, _native.get_threads().intra_max), _native.KEEP, is_firm=True)
    try:
        yield
    finally:
        override.end()
