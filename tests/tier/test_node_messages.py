# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Names of copies, on their way between nodes."""

from __future__ import annotations

import os

import pytest

from tf_malleable.tier.node_messages import area_and_path, decode_key, encode_key, key_of
from tf_malleable.tier.protocol import SETTLED_SECONDS, Identity


@pytest.mark.parametrize(
    ("area", "path"),
    [
        ("public", "/data/x"),
        ("private/1000", "/data/x y\n?&="),
        ("public", "/data/\udcff\udcfe"),
        ("public", "/data/größe/" + "n" * 4000),
        ("private/0", "/private/1/x"),
    ],
)
def test_any_name_comes_back(area, path):
    key = key_of(area, path)
    assert area_and_path(key) == (area, path)
    assert decode_key(encode_key(key)) == key
    assert encode_key(key).isascii()


@pytest.mark.parametrize("key", ["public", "private/1", "public/a/../b", "public/a\0b"])
def test_no_such_name(key):
    with pytest.raises(ValueError, match="copy"):
        area_and_path(key)


def test_versions(tmp_path):
    file = tmp_path / "file"
    file.write_bytes(b"12345")
    about = file.stat()
    identity = Identity.of(about)
    assert identity.version == f"5.{about.st_mtime_ns}.{about.st_ino}"
    assert not identity.is_settled(about.st_mtime_ns / 1e9 + SETTLED_SECONDS - 0.1)
    assert identity.is_settled(about.st_mtime_ns / 1e9 + SETTLED_SECONDS)
    os.utime(file, ns=(-5, -5))
    assert Identity.of(file.stat()).version == f"5.-5.{about.st_ino}"
