# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Whether what was measured is small enough. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Verdict:
    """One bar.

    Attributes:
        measure: The workload's letter, or what else was run.
        text: What was measured.
        value: What came out.
        most: What is allowed.
    """

    measure: str
    text: str
    value: float
    most: float

    @property
    def passed(self) -> bool:
        """True if the bar is reached."""
        return self.value <= self.most

    def as_json(self) -> dict[str, Any]:
        """Return it for a file."""
        return {**vars(self), "passed": self.passed}


def as_text(found: Sequence[Verdict]) -> str:
    """Return the verdicts as a text for people."""
    lines = [("measure", "", "value", "at most", "")]
    for verdict in found:
        passed = "PASS" if verdict.passed else "MISS"
        value, most = f"{verdict.value:.3g}", f"{verdict.most:g}"
        lines.append((verdict.measure, verdict.text, value, most, passed))
    return aligned(lines)


def aligned(lines: Sequence[tuple[str, ...]]) -> str:
    """Return lines of cells as columns."""
    widths = [max(len(line[i]) for line in lines) for i in range(len(lines[0]))]
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip()
        for line in lines
    )
