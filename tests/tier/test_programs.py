# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Unmodified programs through the shim and the daemon: the bytes are the source's."""

from __future__ import annotations

import hashlib
import os
import shutil
import sys

import pytest

from tests.support.commands import CPU
from tests.support.controllers import controller, wait_for
from tests.support.tiers import make_source, nodes, one_node, read_until, run_through

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


def have_all_copied(node) -> int:
    """Have all files read until all are copied; return how often they were read."""

    def read() -> None:
        assert read_all(node) == expected()

    return read_until(lambda: node.status()["copies"] == len(FILES), read)


def wait_for_reports(node, epochs: int) -> dict[str, float]:
    """Wait until the readers of so many epochs have reported all; return the counters."""

    def reported() -> dict[str, float] | None:
        found = node.status()["counters"]
        opens = found["copy_opens"] + found["source_opens"]
        return found if opens == epochs * len(FILES) else None

    return wait_for(reported)


def test_read_twice(tmp_path, source):
    with one_node(tmp_path, source) as node:
        assert read_all(node) == expected()
        first = wait_for_reports(node, 1)
        assert (first["copy_opens"], first["source_bytes"]) == (0, sum(map(len, FILES.values())))
        epochs = 1 + have_all_copied(node)
        before = wait_for_reports(node, epochs)
        assert read_all(node) == expected()
        after = wait_for_reports(node, epochs + 1)
        assert after["copy_opens"] == before["copy_opens"] + len(FILES)
        assert after["source_bytes"] == before["source_bytes"]


def test_on_another_node_nothing_is_read_from_the_source(tmp_path, source):
    with nodes(tmp_path, source, 2) as (a, b):
        have_all_copied(a)
        before: dict[str, float] = {}

        def read_anew() -> None:
            # Of what a reader has read from the source, as a daemon was late, there are copies.
            assert b.tfm("drop").returncode == 0
            before.update(b.status()["counters"])
            assert read_all(b) == expected()

        def is_fetched() -> bool:
            now = b.status()["counters"]
            opened = {name: now[name] - before[name] for name in now}
            names = ("copy_opens", "source_opens", "source_bytes")
            return tuple(map(opened.get, names)) == (len(FILES), 0, 0)

        read_until(is_fetched, read_anew)


@pytest.mark.parametrize("what", ["never there", "killed", "hung"])
def test_without_a_daemon_that_answers(tmp_path, source, what):
    with one_node(tmp_path, source) as node:
        have_all_copied(node)
        if what == "killed":
            node.kill()
        elif what == "hung":
            node.stop()
        elif what == "never there":
            node.tfm("drop")
            node.kill()
            for each in node.folder.glob("s.*"):
                shutil.rmtree(each) if each.is_dir() else each.unlink()
        assert read_all(node) == expected()


def test_a_file_that_changes_between_epochs(tmp_path, source):
    with one_node(tmp_path, source) as node:
        have_all_copied(node)
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
            read_until(
                lambda: node.status()["copies"] >= len(FILES) - 1,
                lambda again=tmp_path / f"again{epoch}": run_through(
                    node, "cp", "-a", str(source), str(again)
                ),
            )


def test_a_controller_is_told_what_a_job_saved(tmp_path, source):
    with controller(tmp_path, "--cpus", str(CPU)) as found, one_node(tmp_path, source) as node:

        def read() -> None:
            words = (sys.executable, "-c", f"import tf_malleable\n{READ_ALL}", str(source))
            done = run_through(node, *words, controller=found.socket)
            assert set(done.stdout.splitlines()) == expected(), done.stderr

        epochs = 1 + read_until(lambda: node.status()["copies"] == len(FILES), read)
        read()
        size, count = sum(map(len, FILES.values())), len(FILES)
        jobs = wait_for(lambda: len(jobs := found.get("/v1/history")["jobs"]) == epochs and jobs)
        first, *_, second = sorted(jobs, key=lambda job: job["ended"])
        none = {"source_bytes": 0, "source_opens": 0, "saved_bytes": 0, "saved_opens": 0}
        assert first["reading"] == {**none, "source_bytes": size, "source_opens": count}
        assert second["reading"] == {**none, "saved_bytes": size, "saved_opens": count}


def test_all_processes_of_a_job_add_up_what_they_read(tmp_path, source):
    with one_node(tmp_path, source) as node:
        path = f"{source}/d0/f3"
        code = f"import os; open({path!r}, 'rb').read(); os._exit(0)"
        reads = f'{sys.executable} -S -c "{code}"'
        prints = "od -An -v -t u8 -w64 ${TF_MALLEABLE_TIER##*counts=}"
        script = f"cat {path} > /dev/null; {reads}; {reads} & wait; {prints}"
        done = run_through(node, "sh", "-c", f"({script}) | tail -1")
        opens, copied, source_opens, from_source, *_ = map(int, done.stdout.split())
        size = len(FILES["d0/f3"])
        assert opens + source_opens == 3
        assert (copied, from_source) == (opens * size, source_opens * size)
