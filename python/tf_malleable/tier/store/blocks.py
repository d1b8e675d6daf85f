# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Blocks of a copy, each with a checksum that detects corruption on disk and in the network."""

from __future__ import annotations

import errno
import mmap
import os
import struct
import zlib
from collections.abc import Callable, Iterator, Sequence
from typing import Final

LEAST_BLOCK: Final = 1 << 20
# ext4 keeps 4 kB of extended attributes for a file, and a checksum takes 4 bytes.
_MOST_BLOCKS: Final = 800


def block_size(size: int) -> int:
    """Return the block size in bytes for a file of this size: a power of 2, at least 1 MiB."""
    block = LEAST_BLOCK
    while size > block * _MOST_BLOCKS:
        block *= 2
    return block


def block_count(size: int) -> int:
    """Return the number of blocks of a file of this size; the last one may be shorter."""
    return -(-size // block_size(size))


def span_of(block: int, size: int) -> tuple[int, int]:
    """Return the first byte and the end of a block in a file of this size."""
    begin = block * block_size(size)
    return begin, min(begin + block_size(size), size)


def checksum(data: bytes | bytearray | memoryview, before: int = 0) -> int:
    """Return the CRC-32 of bytes, continued from that of the bytes before them."""
    return zlib.crc32(data, before)


def checksums_of(
    descriptor: int, size: int, rest: Callable[[int], None] = lambda count: None
) -> Iterator[int]:
    """Yield the checksum of each block of an open file, which may be open with O_DIRECT.

    Args:
        descriptor: Descriptor of the file.
        size: Size of the file in bytes.
        rest: Function that is called after each piece with its bytes; an OSError ends it.

    Raises:
        OSError: The file cannot be read, or is shorter than this size.
    """
    # Aligned to a page, as O_DIRECT needs it.
    with mmap.mmap(-1, LEAST_BLOCK) as buffer, memoryview(buffer) as view:
        for number in range(block_count(size)):
            begin, end = span_of(number, size)
            code = 0
            while begin < end:
                before = begin % mmap.PAGESIZE
                got = min(os.preadv(descriptor, [view], begin - before), end - begin + before)
                if got <= before:
                    raise OSError(errno.EIO, "the copy is shorter than its source")
                code = checksum(view[before:got], code)
                begin += got - before
                rest(got - before)
            yield code


def write_all(descriptor: int, data: bytes | bytearray, begin: int) -> None:
    """Write all of some bytes to an open file, from a position on.

    Raises:
        OSError: The file cannot be written.
    """
    view = memoryview(data)
    while view:
        written = os.pwrite(descriptor, view, begin)
        view, begin = view[written:], begin + written


def pack(codes: Sequence[int]) -> bytes:
    """Return checksums as the value of an extended attribute."""
    return struct.pack(f"<{len(codes)}I", *codes)


def unpack(data: bytes) -> tuple[int, ...]:
    """Decode the result of pack().

    Raises:
        ValueError: The value is malformed.
    """
    if len(data) % 4:
        raise ValueError("checksums take 4 bytes each")
    return struct.unpack(f"<{len(data) // 4}I", data)
