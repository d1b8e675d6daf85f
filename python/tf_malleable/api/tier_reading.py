# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""What is known of a job that reads through a data tier."""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import Meta

_Count = Annotated[int, Meta(ge=0, le=2**62)]


class TierReading(msgspec.Struct, frozen=True, kw_only=True):
    """What all processes of a job have read of a data tier's files.

    Attributes:
        source_bytes: Read from the source.
        source_opens: Files that were opened in the source.
        saved_bytes: Of the copies that were opened, and read from growing ones, instead.
        saved_opens: Complete copies that were opened instead.
    """

    source_bytes: _Count = 0
    source_opens: _Count = 0
    saved_bytes: _Count = 0
    saved_opens: _Count = 0
