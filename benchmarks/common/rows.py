# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""What was measured against its target: a row of every table. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal

from benchmarks.common.estimates import Estimate

Verdict = Literal["passed", "missed", ""]

LEGEND = """In brackets: 95 % confidence interval, bootstrapped. ~ after a verdict: the target
lies within the interval."""


@dataclass(frozen=True)
class Target:
    """What a value must reach, or not exceed."""

    value: float
    at_least: bool = False

    @property
    def sign(self) -> str:
        """As people write it."""
        return "≥" if self.at_least else "≤"

    def met_by(self, value: float) -> bool:
        """True if the value passes."""
        return value >= self.value if self.at_least else value <= self.value


@dataclass(frozen=True)
class Row:
    """One value and what it should be.

    Attributes:
        measure: What was run: a name of --only.
        label: What was measured.
        unit: ``"ratio"``, ``"CPUs"``, ``"seconds"``, ``"ms"``, ``"%"``; or ``""``, which
            is of what the label says.
        found: Value that was measured.
        target: Value that is asked for; None if it is shown for reference.
        workload: Name of the workload, if the measure has several.
        remark: Remark for people.
    """

    measure: str
    label: str
    unit: str
    found: Estimate
    target: Target | None = None
    workload: str = ""
    remark: str = ""

    @property
    def verdict(self) -> Verdict:
        """How the value compares with the target; empty without one."""
        if self.target is None:
            return ""
        return "passed" if self.target.met_by(self.found.value) else "missed"

    @property
    def is_sure(self) -> bool:
        """True unless the target lies within the confidence interval."""
        if self.target is None:
            return True
        return self.target.met_by(self.found.low) == self.target.met_by(self.found.high)

    def as_json(self) -> dict[str, Any]:
        """Return it for a file."""
        return {**asdict(self), "verdict": self.verdict, "sure": self.is_sure}

    @classmethod
    def from_json(cls, said: dict[str, Any]) -> Row:
        """Return what as_json() said."""
        fields = {name: said[name] for name in cls.__dataclass_fields__}
        fields["found"] = Estimate.from_json(said["found"])
        fields["target"] = None if said["target"] is None else Target(**said["target"])
        return cls(**fields)


def shown(value: float, unit: str) -> str:
    """Return a value for people."""
    if unit == "seconds":
        return f"{value * 1e6:.1f} µs" if abs(value) < 1e-3 else f"{value * 1e3:.2f} ms"
    if unit in ("ratio", "CPUs"):
        return f"{value:.3f}" if unit == "ratio" else f"{value:.2f}"
    return f"{value:.3g} {unit}".rstrip()


def interval(row: Row) -> str:
    """Return the confidence interval for people; empty if there is none."""
    if not row.found.has_interval:
        return ""
    return f"[{shown(row.found.low, row.unit)}, {shown(row.found.high, row.unit)}]"


def target(row: Row) -> str:
    """Return the target for people; empty if there is none."""
    if row.target is None:
        return ""
    value, unit = row.target.value, row.unit
    if unit == "seconds":
        value, unit = (value * 1e6, "µs") if value < 1e-3 else (value * 1e3, "ms")
    # Rounded, for the factor between units leaves digits.
    text = f"{round(value, 6):g} {'' if unit in ('ratio', 'CPUs') else unit}"
    return f"{row.target.sign} {text}".rstrip()


def as_text(rows: Sequence[Row]) -> str:
    """Return the rows as a table for people."""
    lines = [("measure", "", "workload", "value", "95 % CI", "target", "", "")]
    for row in rows:
        lines.append(
            (
                row.measure,
                row.label,
                row.workload,
                shown(row.found.value, row.unit),
                interval(row),
                target(row),
                row.verdict + ("" if row.is_sure else "~"),
                row.remark,
            )
        )
    passed, judged = (
        sum(row.verdict in verdicts for row in rows)
        for verdicts in (("passed",), ("passed", "missed"))
    )
    return f"{aligned(lines)}\n\n{passed} of {judged} rows passed.\n{LEGEND}"


def aligned(lines: Sequence[tuple[str, ...]]) -> str:
    """Return lines of cells as columns."""
    widths = [max(len(line[i]) for line in lines) for i in range(len(lines[0]))]
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip()
        for line in lines
    )
