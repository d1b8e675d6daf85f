# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""How many cores a job can use."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Shape:
    """A job's cores: 1 ≤ min ≤ preferred ≤ max.

    Attributes:
        min: It does not run with fewer.
        preferred: Cores it asks for.
        max: Most it can use.

    Raises:
        ValueError: The numbers are not in this order.
    """

    min: int
    preferred: int
    max: int

    def __post_init__(self) -> None:
        if not 1 <= self.min <= self.preferred <= self.max:
            raise ValueError(
                "a shape must have 1 ≤ min ≤ preferred ≤ max, not"
                f" min {self.min}, preferred {self.preferred}, max {self.max}"
            )
