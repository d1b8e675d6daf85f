# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""What was measured of containers against what is asked. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import pairs
from controller.bars import aligned


@dataclass(frozen=True)
class Verdict:
    """One measure, perhaps with a bar.

    Attributes:
        measure: What was run.
        text: What was measured.
        found: What came out.
        unit: ``"ratio"``, ``"ms"``, ``"%"``.
        bar: What is asked; None if it is shown only.
    """

    measure: str
    text: str
    found: pairs.Estimate
    unit: str
    bar: pairs.Bar | None = None

    def as_json(self) -> dict[str, Any]:
        """Return it for a file."""
        return {**asdict(self), "verdict": pairs.verdict(self.found.value, self.bar)}


def as_text(found: Sequence[Verdict]) -> str:
    """Return the verdicts as a text for people."""
    lines = [("", "", "value", "95 % interval", "bar", "")]
    for each in found:
        value, low, high = (f"{v:.3g}" for v in (each.found.value, each.found.low, each.found.high))
        bar = "" if each.bar is None else f"{'≥' if each.bar.at_least else '≤'} {each.bar.value:g}"
        verdict = pairs.verdict(each.found.value, each.bar)
        lines.append(
            (each.measure, each.text, f"{value} {each.unit}", f"{low} … {high}", bar, verdict)
        )
    return aligned(lines)
