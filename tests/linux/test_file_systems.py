# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""The type of the file system of a path, as the kernel writes the names of mount points."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

# A user's FUSE file system has any name; here it is one in memory.
_PROGRAM = """
import os, subprocess, sys
from tf_malleable.linux.file_systems import is_on_file_server, mount_table, type_of
folder, name = sys.argv[1:]
subprocess.run(["mount", "--make-rprivate", "/"], check=True)
subprocess.run(["mount", "-t", "tmpfs", "none", folder], check=True)
inner = os.path.join(folder, name)
os.mkdir(inner)
subprocess.run(["mount", "-t", "ramfs", "none", inner], check=True)
print(type_of(folder, mount_table()), type_of(f"{inner}/data", mount_table()))
is_on_file_server(folder)
"""


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may mount")
@pytest.mark.parametrize(
    "name", ["plain", "données", "a b\t\\040", "a\rb", "a\nb", "a\x0cb", "a\x1eb\x85\u2028c"]
)
def test_mount_points_with_any_name(tmp_path, name):
    done = subprocess.run(
        ["unshare", "-m", sys.executable, "-c", _PROGRAM, tmp_path, name],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert done.stdout == "tmpfs ramfs\n"
