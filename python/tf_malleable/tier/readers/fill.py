# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Filling of a copy from the source, block by block, at a pace that the caller sets."""

from __future__ import annotations

import os
import time
from collections.abc import Awaitable, Callable
from typing import Final

from tf_malleable.tier.service import TierService
from tf_malleable.tier.store import blocks
from tf_malleable.tier.store.partial_copy import PartialCopy

_PIECE: Final = 1 << 20

Turn = Callable[[int], Awaitable[bool]]
"""Waits until a block may be read, given the end of the block; false if it is no longer needed."""


async def fill(service: TierService, growing: PartialCopy, turn: Turn) -> bool:
    """Read all missing blocks of a copy, and publish it; return whether that was done.

    Args:
        service: Service of the tier.
        growing: Partial copy, for which this node has the claim.
        turn: Function that waits for the turn of each block.
    """
    if growing.is_closed:
        return False
    # Duplicates: both descriptors may be closed, and their numbers reused, while a thread copies.
    target, source = os.dup(growing.part), os.dup(growing.source)
    try:
        for number in range(len(growing.codes)):
            begin, end = blocks.span_of(number, growing.size)
            if growing.is_closed:
                return False
            if growing.there(number, 1):
                continue
            if not await turn(end):
                service.give_up(growing, "its reader has gone before all of it was read")
                return False
            code, seconds = await service.in_thread(
                lambda span=(begin, end): _copy(source, target, *span)  # type: ignore[misc]
            )
            service.wrote(seconds)
            service.counters.source_bytes += end - begin
            if not growing.is_closed:
                growing.take(number, code)
    except OSError as error:
        service.disk_failed(error)
        service.give_up(growing, f"{error.strerror or error}")
        return False
    finally:
        os.close(target)
        os.close(source)
    await service.finish(growing)
    return not growing.problem


def _copy(source: int, target: int, begin: int, end: int) -> tuple[int, float]:
    """Copy a part of a file; return its checksum, and the seconds spent on writing."""
    code, seconds = 0, 0.0
    while begin < end:
        data = os.pread(source, min(_PIECE, end - begin), begin)
        if not data:
            raise OSError("the file was cut off while it was copied")
        code = blocks.checksum(data, code)
        began = time.monotonic()
        view = memoryview(data)
        while view:
            written = os.pwrite(target, view, begin)
            view, begin = view[written:], begin + written
        seconds += time.monotonic() - began
    return code, seconds


async def at_once(end: int) -> bool:
    """Return at once: each block is read right after the one before."""
    return True
