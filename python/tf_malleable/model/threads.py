# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Thread limits of a process."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Threads:
    """Thread limits of a process; None while TensorFlow has no such pool.

    Attributes:
        intra: Intra-op limit: threads inside one op.
        inter: Inter-op limit: ops run side by side.
    """

    intra: int | None
    inter: int | None
