# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Samples of earlier calls of a benchmark, to which --resume adds more."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from benchmarks.common.command_line import BenchmarkError

Samples = dict[str, list[Any]]
"""What each round has brought, by measure: plain data."""


def earlier(path: Path, commit: str | None) -> tuple[Samples, list[Any]]:
    """Return the samples of a file, and which calls they are of; nothing if there is none.

    Raises:
        BenchmarkError: They are of another commit, or it has none.
    """
    if not path.exists():
        return {}, []
    try:
        said = json.loads(path.read_text())
        samples = {name: list(rounds) for name, rounds in said["samples"].items()}
        calls = list(said["calls"])
        calls.append({name: said[name] for name in ("command", "date", "seconds", "noise")})
    except (ValueError, KeyError, TypeError, AttributeError):
        raise BenchmarkError(f"--resume: {path} holds no samples of this benchmark") from None
    if said["commit"] != commit:
        raise BenchmarkError(f"--resume: the samples in {path} are of another commit")
    return samples, calls
