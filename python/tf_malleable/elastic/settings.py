# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""What an elastic training was asked for, and what may be asked."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Final

ASKED: Final = "TF_MALLEABLE_ELASTIC"
SHARDS: Final = "TF_MALLEABLE_ELASTIC_SHARDS"
SEED: Final = "TF_MALLEABLE_ELASTIC_SEED"
THREADS: Final = "TF_MALLEABLE_ELASTIC_THREADS"

# Beyond it, the words that whole numbers are cut into would not add up exactly.
MOST_SHARDS: Final = 256
_MOST_SEED: Final = 2**32 - 1
_MOST_THREADS: Final = 1024


@dataclass(frozen=True)
class Settings:
    """How a training is cut up; the same for all its members.

    Attributes:
        shards: Into how many each batch is cut; 1 … 256.
        seed: Of Python's, NumPy's and TensorFlow's generators, before the script runs; None
            leaves them as they are.
        threads: Threads inside an op of a shard, whatever the process may use: bits are
            then the same for any CPUs. None for as many as the process may use.
    """

    shards: int = 1
    seed: int | None = None
    threads: int | None = None


def asked_for() -> Settings | None:
    """Return what the environment asks for; None if that is no elastic training.

    Raises:
        ValueError: A variable has a value that is not allowed.
    """
    if os.environ.get(ASKED, "") in ("", "0"):
        return None
    shards = _number(SHARDS, 1, MOST_SHARDS) or 1
    # Shards run side by side, so that one thread for each is the cheapest, too.
    threads = _number(THREADS, 0, _MOST_THREADS)
    if threads is None:
        threads = 1 if shards > 1 else 0
    return Settings(shards, _number(SEED, 0, _MOST_SEED), threads or None)


def _number(variable: str, lowest: int, highest: int) -> int | None:
    text = os.environ.get(variable, "")
    if not text:
        return None
    if not (text.isascii() and text.isdigit() and lowest <= int(text) <= highest):
        raise ValueError(f"{variable} must be an integer from {lowest} to {highest}, not {text!r}")
    return int(text)
