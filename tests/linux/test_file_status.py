# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""The status that statx() gives is that of os.stat()."""

from __future__ import annotations

import os

import pytest

from tf_malleable.linux.file_status import cached_status


@pytest.mark.parametrize("path", ["/etc/passwd", "/proc/self/exe", "/dev/null", "/tmp"])
def test_it_is_that_of_lstat(path):
    found, expected = cached_status(path), os.lstat(path)
    assert found._asdict() == {name: getattr(expected, name) for name in found._fields}


def test_of_a_descriptor_it_is_that_of_fstat(tmp_path):
    with open(tmp_path / "file", "w+b") as file:
        file.write(b"x" * 12345)
        file.flush()
        found, expected = cached_status(file.fileno()), os.fstat(file.fileno())
    assert found._asdict() == {name: getattr(expected, name) for name in found._fields}
    with pytest.raises(FileNotFoundError):
        cached_status(str(tmp_path / "none"))
