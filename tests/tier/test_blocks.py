# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Blocks: their sizes, and their checksums in what ext4 keeps of attributes."""

from __future__ import annotations

import os
import zlib

import pytest

from tf_malleable.tier.store import blocks


@pytest.mark.parametrize(
    "size", [0, 1, 1 << 20, (1 << 20) + 1, 800 << 20, (800 << 20) + 1, 1 << 45]
)
def test_spans_cover_a_file_and_fit_an_attribute(size):
    count = blocks.block_count(size)
    assert count <= 800
    assert len(blocks.pack([0] * count)) < 3500
    if count:
        assert blocks.span_of(0, size)[0] == 0
        assert blocks.span_of(count - 1, size)[1] == size
        assert all(
            blocks.span_of(n, size)[1] == blocks.span_of(n + 1, size)[0] for n in range(count - 1)
        )


def test_checksums_of_a_file(tmp_path):
    data = os.urandom((2 << 20) + 5)
    path = tmp_path / "copy"
    path.write_bytes(data)
    with path.open("rb") as file:
        codes = list(blocks.checksums_of(file.fileno(), len(data)))
        with pytest.raises(OSError, match="shorter"):
            list(blocks.checksums_of(file.fileno(), len(data) + 1))
    assert codes == [
        zlib.crc32(data[: 1 << 20]),
        zlib.crc32(data[1 << 20 : 2 << 20]),
        zlib.crc32(data[2 << 20 :]),
    ]
    assert blocks.unpack(blocks.pack(codes)) == tuple(codes)


def test_an_attribute_that_is_cut_off():
    with pytest.raises(ValueError, match="4 bytes"):
        blocks.unpack(b"12345")
