# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Data tier read counters of the job, which the shim library adds up in a shared file.

All processes of the job share the file, including those that Python did not start.
"""

from __future__ import annotations

import os
import struct

_VARIABLE = "TF_MALLEABLE_TIER"
# As Counts in cc/tier/protocol.h: opens, bytes and stats of copies, opens and bytes of the source,
# bytes of growing copies, waits and their nanoseconds.
_COUNTS = struct.Struct("<8Q")


def reading() -> dict[str, int] | None:
    """Return the counters in the form of a progress request's body; None without a tier."""
    for line in os.environ.get(_VARIABLE, "").splitlines():
        word, _, path = line.partition("=")
        if word == "counts":
            return _read(path)
    return None


def _read(path: str) -> dict[str, int] | None:
    try:
        with open(path, "rb") as file:
            opens, copied, _, source_opens, source, growing, *_ = _COUNTS.unpack(
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
