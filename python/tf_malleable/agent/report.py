# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""What the controller is told about the job, once a second."""

from __future__ import annotations

import time
from typing import Any

from tf_malleable.agent import steps
from tf_malleable.runtime import library, limits


def progress() -> dict[str, Any]:
    """Return how far the job is and what its threads do, as the controller takes it."""
    done = steps.now()
    said: dict[str, Any] = {
        "steps_done": done.done,
        "steps_total": done.total,
        "cpu_seconds": time.process_time(),
    }
    if library.backend() is not None:
        pools = limits.pools()
        said["active"] = sum(pool.active for pool in pools)
        said["queued"] = sum(max(0, pool.queued) for pool in pools)
        said["threads"] = limits.get_threads().intra
    return {name: value for name, value in said.items() if value is not None}
