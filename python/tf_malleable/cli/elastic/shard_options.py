# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Options that define how a training is cut into shards; its result depends on them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import click

from tf_malleable.elastic.settings import MOST_SHARDS
from tf_malleable.runtime import environment

_MOST_SEED = 2**32 - 1
_Function = TypeVar("_Function", bound=Callable[..., Any])


def options(function: _Function) -> _Function:
    """Add --seed and --shard-threads to a command."""
    seed = click.option(
        "--seed",
        type=int,
        metavar="N",
        help="Of Python's, NumPy's and TensorFlow's generators, before the script runs."
        "  [default: another one for each training]",
    )
    threads = click.option(
        "--shard-threads",
        type=int,
        metavar="N",
        help="Threads inside an op of a shard; 0 for all threads of the worker.  [default: 1]",
    )
    return seed(threads(function))


def check_shards(shards: int) -> None:
    """Raise ValueError if a batch cannot be cut into this number of shards."""
    if not 1 <= shards <= MOST_SHARDS:
        raise ValueError(f"--shards must be an integer from 1 to {MOST_SHARDS}, not {shards}")


def check(seed: int | None, shard_threads: int | None) -> None:
    """Raise ValueError if an option's value is not allowed."""
    if seed is not None and not 0 <= seed <= _MOST_SEED:
        raise ValueError(f"--seed must be an integer from 0 to {_MOST_SEED}, not {seed}")
    most = environment.max_threads()
    if shard_threads is not None and not 0 <= shard_threads <= most:
        raise ValueError(
            f"--shard-threads must be an integer from 0 to {most}, not {shard_threads}"
        )


def as_options(seed: int | None, shard_threads: int | None) -> tuple[str, ...]:
    """Return the equivalent command-line options."""
    said = {"--seed": seed, "--shard-threads": shard_threads}
    return tuple(f"{name}={value}" for name, value in said.items() if value is not None)
