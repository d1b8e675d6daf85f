# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Unmodified programs through the shim and the daemon: the bytes are the source's."""

from __future__ import annotations

import hashlib
import os

import pytest

from tests.support.controllers import wait_for
from tests.support.tiers import make_source, nodes, one_node, run_through

pytestmark = pytest.mark.slow
FILES = {f"d{n % 3}/f{n}": os.urandom(1000 + 300_000 * n) for n in range(9)}
READ_ALL = """
import hashlib, os, sys
for where, folders, names in os.walk(sys.argv[1]):
    for name in names:
        path = os.path.join(where, name)
        with open(path, "rb") as file:
            code = hashlib.sha256()
            while piece := file.read(100_000):
                code.update(piece)
        print(os.path.relpath(path, sys.argv[1]), code.hexdigest())
"""


@pytest.fixture
def source(tmp_path):
    return make_source(tmp_path / "source", FILES)


def expected() -> set[str]:
    return {f"{name} {hashlib.sha256(data).hexdigest()}" for name, data in FILES.items()}


def read_all(node) -> set[str]:
    done = run_through(node, "python3", "-c", READ_ALL, str(node.source))
    assert (done.returncode, done.stderr.replace("\n", "").count("Error")) == (0, 0), done.stderr
    return set(done.stdout.splitlines())


def test_read_twice(tmp_path, source):
    with one_node(tmp_path, source) as node:
        assert read_all(node) == expected()
        wait_for(lambda: node.status()["copies"] == len(FILES))
        read = node.counted("source_bytes")
        assert read == sum(map(len, FILES.values()))
        assert read_all(node) == expected()
        assert node.counted("source_bytes") == read
        assert node.counted("copy_opens") == len(FILES)


def test_on_another_node_nothing_is_read_from_the_source(tmp_path, source):
    with nodes(tmp_path, source, 2) as (a, b):
        assert read_all(a) == expected()
        wait_for(lambda: a.status()["copies"] == len(FILES))
        assert read_all(b) == expected()
        assert b.counted("source_bytes") == 0
        assert b.counted("source_opens") == 0


@pytest.mark.parametrize("what", ["never there", "killed", "hung"])
def test_without_a_daemon_that_answers(tmp_path, source, what):
    with one_node(tmp_path, source) as node:
        read_all(node)
        if what == "killed":
            node.kill()
        elif what == "hung":
            node.stop()
        elif what == "never there":
            node.tfm("drop")
            node.kill()
            for each in node.folder.glob("s.*"):
                each.unlink()
        assert read_all(node) == expected()


def test_a_file_that_changes_between_epochs(tmp_path, source):
    with one_node(tmp_path, source) as node:
        read_all(node)
        wait_for(lambda: node.status()["copies"] == len(FILES))
        done = run_through(node, "sh", "-c", f"echo other > {source}/d0/f0; cat {source}/d0/f0")
        assert done.stdout == "other\n"
        done = run_through(node, "cp", f"{source}/d0/f3", f"{source}/d0/f6")
        assert done.returncode == 0, done.stderr
        done = run_through(node, "cmp", f"{source}/d0/f3", f"{source}/d0/f6")
        assert done.returncode == 0, done.stdout


def test_cp_and_tar(tmp_path, source):
    with one_node(tmp_path, source) as node:
        for epoch in range(2):
            to = tmp_path / f"to{epoch}"
            done = run_through(node, "cp", "-a", str(source), str(to))
            assert (done.returncode, done.stderr) == (
                0,
                f"tfm: no controller answers at {node.folder}/no-controller, running alone\n",
            )
            found = {str(path.relative_to(to)): path.read_bytes() for path in to.rglob("f*")}
            assert found == FILES
            assert all(
                (to / name).stat().st_mtime_ns == (source / name).stat().st_mtime_ns
                for name in FILES
            )
            done = run_through(node, "sh", "-c", f"tar -C {source} -cf - . | tar -C {to} -df -")
            assert (done.returncode, done.stdout) == (0, "")
            wait_for(lambda: node.status()["copies"] >= len(FILES) - 1)
