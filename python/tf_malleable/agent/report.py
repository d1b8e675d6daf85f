# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Progress report of the job, sent once a second: its steps, CPU time, pools and reads."""

from __future__ import annotations

import os
import struct
import time
from typing import Any

from tf_malleable.agent import steps
from tf_malleable.runtime import library, limits

_VARIABLE = "TF_MALLEABLE_TIER"
# As Counts in cc/tier/protocol.h: opens and bytes of copies, opens and bytes of the source, bytes
# of partial copies, waits and their nanoseconds.
_COUNTS = struct.Struct("<7Q")


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
        "reading": _reading(),
    }
    if library.backend() is not None:
        pools = limits.pools()
        report["active"] = sum(pool.active for pool in pools)
        report["queued"] = sum(max(0, pool.queued) for pool in pools)
        report["threads"] = limits.get_threads().intra
    return {name: value for name, value in report.items() if value is not None}


def _reading() -> dict[str, int] | None:
    """Return what the job has read from its data tier; None without a tier.

    The shim library adds the counters up in a file that all processes of the job share,
    including those that Python did not start.
    """
    for line in os.environ.get(_VARIABLE, "").splitlines():
        word, _, path = line.partition("=")
        if word == "counts":
            return _read_counts(path)
    return None


def _read_counts(path: str) -> dict[str, int] | None:
    try:
        with open(path, "rb") as file:
            opens, copied, source_opens, source, growing, *_ = _COUNTS.unpack(
                file.read(_COUNTS.size)
            )
    except (OSError, struct.error):
        return None
    return {
        "source_bytes": source,
        "source_opens": source_opens,
        "saved_bytes": copied + growing,
        "saved_opens": opens,
    }
