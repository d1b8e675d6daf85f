# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Amounts of memory as text."""

from __future__ import annotations

import re

import pytest

from tf_malleable.model.units import SIZE_PATTERN, parse_size, size_text


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("0", 0),
        ("4096", 4096),
        ("512k", 512 << 10),
        ("512M", 512 << 20),
        ("4G", 4 << 30),
        ("4g", 4 << 30),
        ("1T", 1 << 40),
        (str(1 << 50), 1 << 50),
    ],
)
def test_a_size_is_a_number_with_a_unit(text, size):
    assert parse_size(text) == size


@pytest.mark.parametrize(
    "text", ["", "G", "4 G", "4GB", "1.5G", "-1G", "4P", "²G", "4G\n", "9" * 17]
)
def test_what_is_no_size_is_refused(text):
    with pytest.raises(ValueError, match="a size must be a number with K, M, G or T"):
        parse_size(text)


def test_what_the_pattern_allows_is_a_size():
    for text in ("1K", "512M", "4g", "0T", "9" * 15 + "T"):
        assert re.search(SIZE_PATTERN, text)
        assert parse_size(text) >= 0


@pytest.mark.parametrize(
    ("size", "text"),
    [
        (None, "-"),
        (512, "512 B"),
        (1536, "1.5 KiB"),
        (4 << 30, "4.0 GiB"),
        (1000 << 20, "1.0 GiB"),
        (5 << 50, "5120.0 TiB"),
    ],
)
def test_a_size_is_shown_in_the_next_unit(size, text):
    assert size_text(size) == text
