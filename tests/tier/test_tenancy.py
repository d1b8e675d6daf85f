# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Whose a copy is: everybody's only if everybody may read the file by its name."""

from __future__ import annotations

import os
import struct

import pytest

from tests.support.fixtures import directory as directory
from tf_malleable.tier.store import tenancy


@pytest.fixture
def file(directory):
    path = directory / "sub" / "file"
    path.parent.mkdir(mode=0o755)
    path.write_bytes(b"x")
    path.chmod(0o644)
    return path.resolve()


def area(path):
    return tenancy.area_of(path, path.stat(), 1000)


def test_public(file):
    assert area(file) == "public"


@pytest.mark.parametrize("mode", [0o640, 0o600, 0o000])
def test_a_file_that_not_everybody_may_read(file, mode):
    file.chmod(mode)
    assert area(file) == "private/1000"


def test_a_folder_on_the_way_that_not_everybody_may_enter(file):
    file.parent.chmod(0o750)
    assert area(file) == "private/1000"
    file.parent.chmod(0o711)
    assert area(file) == "public"


def acl() -> bytes:
    """A list by which a user may not read what the mode lets others read."""
    entry = struct.Struct("<HHI")
    nobody = 0xFFFFFFFF
    return struct.pack("<I", 2) + b"".join(
        entry.pack(*each)
        for each in [(1, 6, nobody), (2, 0, 4242), (4, 4, nobody), (16, 4, nobody), (32, 4, nobody)]
    )


@pytest.mark.parametrize("which", ["file", "folder"])
def test_an_access_control_list(file, which):
    path = file if which == "file" else file.parent
    try:
        os.setxattr(path, "system.posix_acl_access", acl())
    except OSError as error:
        pytest.skip(f"no access control lists here: {error}")
    assert area(file) == "private/1000"


def test_another_file_of_that_name(file):
    about = file.stat()
    other = file.with_name("other")
    other.write_bytes(b"x")
    other.chmod(0o644)
    os.replace(other, file)
    assert tenancy.area_of(file, about, 7) == "private/7"


def test_a_link_on_the_way_is_not_followed(file):
    link = file.parent.parent / "link"
    link.symlink_to(file.parent)
    assert tenancy.area_of(link / "file", file.stat(), 7) == "private/7"
