# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""The two numbers this package is about."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Threads:
    """Thread limits of a process; None while TensorFlow has no such pool.

    Attributes:
        intra: Threads inside one op.
        inter: Ops run side by side.
    """

    intra: int | None
    inter: int | None
