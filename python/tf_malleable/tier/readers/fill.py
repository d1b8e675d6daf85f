# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Makes a copy from a descriptor of the source: block by block, each when its turn has come."""

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
"""Waits until a block is to be read, given where it ends; false if it is not to be any more."""


async def fill(service: TierService, growing: PartialCopy, turn: Turn) -> bool:
    """Copy all that is missing, and publish it; returns whether that was done.

    Args:
        service: The tier.
        growing: The copy, which this node has the claim to make.
        turn: Says when a block is to be read.
    """
    if growing.is_closed:
        return False
    # Both may be closed, and their numbers used again, while a thread is at it.
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
    """Copy a part of a file; returns its checksum, and how many seconds it took to write it."""
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
    """Have each block read when the one before is."""
    return True
