# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Malformed input for parsers: good inputs with other bytes and other words in them."""

from __future__ import annotations

import re
from collections.abc import Sequence

from hypothesis import strategies as st

_WORD = re.compile(rb'"(?:[^"\\]|\\.)*"|[\w.+-]+|[^\w\s]')
_DEEP = 3000
WORDS = [
    b"",
    b"0",
    b"-1",
    b"1.5",
    b"1e400",
    b"-1e400",
    b"1e308",
    b"9" * 30,
    b"9" * 5000,
    b"18446744073709551615",
    b"9223372036854775808",
    b"inf",
    b"nan",
    b"Infinity",
    b"NaN",
    b"1_0",
    b"null",
    b"true",
    b'""',
    b'"a\\nb"',
    b'"\\ud800"',
    b'"\\u0000"',
    b'"' + b"x" * 2000 + b'"',
    b"[]",
    b"{}",
    b"[" * _DEEP + b"]" * _DEEP,
    b'{"a":' * _DEEP + b"1" + b"}" * _DEEP,
    b"..",
    b"/",
    b"\n",
    b"\r",
    b"\0",
    b"\xff",
    "²".encode(),
    "\u2028".encode(),
]
"""Words that parsers do not expect."""


@st.composite
def malformed(draw: st.DrawFn, good: Sequence[bytes]) -> bytes:
    """Return one of some inputs with a few changes; also one that is still good."""
    data = draw(st.sampled_from(good))
    for _ in range(draw(st.integers(0, 3))):
        data = draw(st.sampled_from((_with_word, _with_bytes, _cut, _spliced)))(draw, data, good)
    return data


def _with_word(draw: st.DrawFn, data: bytes, good: Sequence[bytes]) -> bytes:
    """Put another word in the place of one."""
    places = [found.span() for found in _WORD.finditer(data[:_DEEP])]
    if not places:
        return data
    start, end = draw(st.sampled_from(places))
    return data[:start] + draw(st.sampled_from(WORDS)) + data[end:]


def _with_bytes(draw: st.DrawFn, data: bytes, good: Sequence[bytes]) -> bytes:
    """Put other bytes in the place of some."""
    start = draw(st.integers(0, len(data)))
    return data[:start] + draw(st.binary(max_size=8)) + data[start + draw(st.integers(0, 8)) :]


def _cut(draw: st.DrawFn, data: bytes, good: Sequence[bytes]) -> bytes:
    return data[: draw(st.integers(0, len(data)))]


def _spliced(draw: st.DrawFn, data: bytes, good: Sequence[bytes]) -> bytes:
    """Put a piece of an input into another."""
    start = draw(st.integers(0, len(data)))
    other = draw(st.sampled_from(good))
    begin = draw(st.integers(0, len(other)))
    return data[:start] + other[begin : begin + 64] + data[start:]
