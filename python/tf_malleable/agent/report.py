# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Progress report of the job, sent once a second."""

from __future__ import annotations

import time
from typing import Any

from tf_malleable.agent import steps, tier_stats
from tf_malleable.runtime import library, limits


def has_steps() -> bool:
    """Return whether the program has reported any steps."""
    return steps.now().done is not None


def progress() -> dict[str, Any]:
    """Return the job's steps, CPU time, reading and pools, as the body of a progress request."""
    done = steps.now()
    report: dict[str, Any] = {
        "steps_done": done.done,
        "steps_total": done.total,
        "cpu_seconds": time.process_time(),
        "reading": tier_stats.reading(),
    }
    if library.backend() is not None:
        pools = limits.pools()
        report["active"] = sum(pool.active for pool in pools)
        report["queued"] = sum(max(0, pool.queued) for pool in pools)
        report["threads"] = limits.get_threads().intra
    return {name: value for name, value in report.items() if value is not None}
