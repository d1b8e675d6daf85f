# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Whom a subordinate uid is counted for."""

from __future__ import annotations

import os
import pwd

import pytest

from tf_malleable.linux.processes.subordinate_uids import account_of

NOBODY = pwd.getpwnam("nobody").pw_uid


@pytest.fixture
def file(tmp_path):
    return tmp_path / "subuid"


def test_a_uid_of_a_range_is_counted_for_the_owner_of_the_range(file):
    file.write_text("nobody:100000:65536\n4001:165536:2\n")
    assert [account_of(uid, file) for uid in (99999, 100000, 165535)] == [99999, NOBODY, NOBODY]
    assert [account_of(uid, file) for uid in (165536, 165537, 165538)] == [4001, 4001, 165538]


def test_users_of_the_host_are_counted_for_themselves(file):
    """Also if somebody has given their uids away by mistake."""
    file.write_text(f"4001:0:70000\n4001:{NOBODY}:1\n")
    assert [account_of(uid, file) for uid in (0, NOBODY, 4000)] == [0, NOBODY, 4001]


def test_nobody_is_counted_for_root(file):
    """Root has no quota, and gives its uids to whom it likes."""
    file.write_text("root:100000:65536\n")
    assert account_of(100000, file) == 100000


@pytest.mark.parametrize(
    "line",
    ["", "x", "# 4001:100000:9", "4001:100000", "4001:x:9", "4001:1:\xb2", "no-such-user:100000:9"],
)
def test_lines_that_make_no_sense_are_no_ranges(file, line):
    file.write_text(f"{line}\n4002:200000:1\n", encoding="latin-1")
    assert [account_of(uid, file) for uid in (100000, 200000)] == [100000, 4002]


def test_a_changed_file_is_read_again(file):
    assert account_of(100000, file) == 100000
    file.write_text("4001:100000:1\n")
    assert account_of(100000, file) == 4001
    other = file.with_name("other")
    other.write_text("4002:100000:1\n")
    os.replace(other, file)
    assert account_of(100000, file) == 4002
    file.unlink()
    assert account_of(100000, file) == 100000
