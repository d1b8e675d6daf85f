# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Users that a user namespace has, and others."""

from __future__ import annotations

import pytest

from tf_malleable.linux.processes.users import is_foreign


@pytest.mark.parametrize(
    ("mapped", "uid", "foreign"),
    [
        ("         0          0 4294967295\n", 65534, False),
        ("         0     100000      65536\n", 65534, True),
        ("         0     100000      65536\n", 1000, False),
        ("         0          0       1000\n      1000    1000      1\n", 65534, True),
    ],
)
def test_in_a_user_namespace_others_are_foreign(tmp_path, mapped, uid, foreign):
    (tmp_path / "self").mkdir()
    (tmp_path / "self" / "uid_map").write_text(mapped)
    (tmp_path / "sys" / "kernel").mkdir(parents=True)
    (tmp_path / "sys" / "kernel" / "overflowuid").write_text("65534\n")
    assert is_foreign(uid, tmp_path) is foreign


def test_without_procfs_nobody_is(tmp_path):
    assert not is_foreign(65534, tmp_path)
