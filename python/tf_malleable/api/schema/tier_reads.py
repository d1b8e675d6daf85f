# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Message with the read counters of a job that reads through a data tier."""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import Meta

_Count = Annotated[int, Meta(ge=0, le=2**62)]


class TierReading(msgspec.Struct, frozen=True, kw_only=True):
    """Reads of a data tier's files by all processes of a job.

    Attributes:
        source_bytes: Bytes read from the source.
        source_opens: Number of files opened in the source.
        saved_bytes: Bytes of the copies that were opened, and bytes read from growing copies,
            instead of the source.
        saved_opens: Number of complete copies opened instead of the source.
    """

    source_bytes: _Count = 0
    source_opens: _Count = 0
    saved_bytes: _Count = 0
    saved_opens: _Count = 0
