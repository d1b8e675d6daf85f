# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Shape: the numbers of cores that a job can use."""

from __future__ import annotations

from tf_malleable.quick_dataclass import dataclass


@dataclass(frozen=True)
class Shape:
    """Numbers of cores of a job: 1 ≤ min ≤ preferred ≤ max.

    Attributes:
        min: Minimum; the job does not run with fewer cores.
        preferred: Number of cores that the job requests.
        max: Maximum that the job can use.

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
