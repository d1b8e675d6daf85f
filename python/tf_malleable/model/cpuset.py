# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Sets of CPU numbers, and the kernel's text format for them: ``0-3,7``."""

from __future__ import annotations

from collections.abc import Iterable

Cpuset = frozenset[int]

_HIGHEST = 65535


def parse_cpuset(text: str) -> Cpuset:
    """Return the CPUs in a list such as ``"0-3,7"``; ``""`` is the empty set.

    Raises:
        ValueError: The text is not such a list.
    """
    runs: set[tuple[int, int]] = set()
    for part in text.strip().split(",") if text.strip() else []:
        first, dash, last = part.strip().partition("-")
        ends = (first, last) if dash else (first, first)
        if not all(end.isascii() and end.isdigit() and int(end) <= _HIGHEST for end in ends):
            raise ValueError(f"CPUs must be a list such as 0-3,7, not {text!r:.80}")
        low, high = map(int, ends)
        if low > high:
            raise ValueError(f"CPUs must be a list such as 0-3,7, not {text!r:.80}")
        runs.add((low, high))
    cpus: set[int] = set()
    begin = 0
    # Each CPU once: thousands of runs may overlap.
    for low, high in sorted(runs):
        cpus.update(range(max(low, begin), high + 1))
        begin = max(begin, high + 1)
    return frozenset(cpus)


def format_cpuset(cpus: Iterable[int]) -> str:
    """Return CPUs in the kernel's format: ``{0, 1, 2, 7}`` is ``"0-2,7"``."""
    runs: list[list[int]] = []
    for cpu in sorted(set(cpus)):
        if runs and runs[-1][1] == cpu - 1:
            runs[-1][1] = cpu
        else:
            runs.append([cpu, cpu])
    return ",".join(str(low) if low == high else f"{low}-{high}" for low, high in runs)
