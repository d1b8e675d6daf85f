# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Claims on CPUs: who sees them, when they end, and who may ignore whose."""

from __future__ import annotations

import fcntl
import os
import stat
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from tf_malleable.linux import cpu_claims
from tf_malleable.linux.cpu_claims import Claim, ClaimError

NOBODY = 65534
as_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can act as other users")

# Claims CPUs as another user, says what came of it, and keeps the claim until it is ended.
CLAIMS = """
import os, sys
from tf_malleable.linux.cpu_claims import Claim, ClaimError
from tf_malleable.model import parse_cpuset
if int(sys.argv[1]) != os.getuid():
    os.setgroups([]); os.setgid(int(sys.argv[1])); os.setuid(int(sys.argv[1]))
try:
    claim = Claim(parse_cpuset(sys.argv[2]), "/somewhere")
except ClaimError as error:
    print(error, flush=True)
else:
    print(claim.problem, flush=True)
    sys.stdin.read()
"""


@pytest.fixture
def folder(monkeypatch):
    with TemporaryDirectory() as name:
        os.chmod(name, 0o755)
        path = Path(name, "claims")
        monkeypatch.setenv(cpu_claims.VARIABLE, str(path))
        yield path


@contextmanager
def another(cpus, uid=None):
    """Run a process that claims CPUs; yield it and what came of it."""
    process = subprocess.Popen(
        [sys.executable, "-c", CLAIMS, str(os.getuid() if uid is None else uid), cpus],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        yield process, process.stdout.readline().strip()
    finally:
        process.kill()
        process.communicate()


def is_free(*cpus):
    try:
        Claim(frozenset(cpus), "/here").close()
    except ClaimError:
        return False
    return True


def test_cpus_are_claimed_once_and_the_refusal_says_by_whom(folder):
    with another("0-3") as (process, said):
        assert said == "None"
        with pytest.raises(ClaimError, match="already shares out CPUs 2-3") as caught:
            Claim(frozenset({2, 3, 4}), "/here")
        assert f"(pid {process.pid})" in str(caught.value)
        assert "listens at /somewhere" in str(caught.value)
        assert is_free(4, 5)


def test_all_can_read_a_claim_and_nobody_can_change_anothers(folder):
    one = Claim(frozenset({0}), "/here")
    (file,) = folder.iterdir()
    assert stat.S_IMODE(file.stat().st_mode) == 0o644
    assert folder.stat().st_mode & stat.S_ISVTX
    assert f"pid {os.getpid()}\n" in file.read_text()
    assert "cpus 0\nsocket /here\n" in file.read_text()
    one.close()
    assert list(folder.iterdir()) == []


def test_a_claim_ends_with_its_process(folder):
    with another("0") as (process, _):
        assert not is_free(0)
        process.kill()
        process.wait()
        assert is_free(0)
    assert list(folder.iterdir()) == []


def test_no_lock_of_anybody_else_keeps_it_alive(folder):
    with another("0") as (process, _):
        (file,) = folder.iterdir()
        with file.open() as opened:
            process.kill()
            process.wait()
            fcntl.flock(opened, fcntl.LOCK_EX | fcntl.LOCK_NB)
            assert is_free(0)


def test_it_follows_the_cpus(folder):
    one = Claim(frozenset({0, 1, 2, 3}), "/here")
    one.update(frozenset({3}))
    assert is_free(0, 1, 2)
    assert not is_free(3)
    one.close()


@pytest.mark.parametrize(
    "content", ["", "x", "pid 1\nstart x\ncpus 0\nsocket /a\n", "cpus 0\n" * 500, "\0\n\xff"]
)
def test_what_makes_no_sense_claims_nothing(folder, content):
    folder.mkdir()
    file = folder / "tf_malleable-claim-odd"
    file.write_text(content)
    with file.open() as opened:
        fcntl.flock(opened, fcntl.LOCK_EX)
        assert is_free(0)


def test_what_is_no_file_is_left_alone(folder):
    folder.mkdir()
    os.mkfifo(folder / "tf_malleable-claim-fifo")
    (folder / "tf_malleable-claim-below").mkdir()
    (folder / "tf_malleable-claim-link").symlink_to("/etc/passwd")
    assert is_free(0)
    assert len(list(folder.iterdir())) == 3


@as_root
def test_users_respect_root_and_each_other_and_root_only_itself(folder):
    folder.mkdir()
    folder.chmod(0o1777)
    with another("0", NOBODY) as (_, said):
        assert said == "None"
        with another("0", 4321) as (_, second):
            assert "already shares out CPUs 0" in second
        mine = Claim(frozenset({0}), "/here")
        assert mine.problem is not None
        assert "shares out CPUs 0, too" in mine.problem
    with another("0", NOBODY) as (_, said):
        assert f"a controller of root (pid {os.getpid()}) already shares out CPUs 0" in said
    with pytest.raises(ClaimError, match="a controller of root"):
        Claim(frozenset({0}), "/there")
    mine.close()


def test_without_roots_folder_the_shared_one_is_used(folder, monkeypatch):
    monkeypatch.delenv(cpu_claims.VARIABLE)
    monkeypatch.setattr(cpu_claims, "_ROOTS_FOLDER", "/proc/none")
    monkeypatch.setattr(cpu_claims, "_SHARED_FOLDER", str(folder))
    one = Claim(frozenset({0}), "/here")
    assert one.problem is None
    assert len(list(folder.iterdir())) == 1
    assert not is_free(0)
    one.close()


def test_without_any_folder_it_says_so(folder, monkeypatch):
    monkeypatch.setenv(cpu_claims.VARIABLE, "/proc/none")
    one = Claim(frozenset({0}), "/here")
    assert one.problem is not None
    assert "cannot write a file in /proc/none" in one.problem
    one.close()


def test_only_claims_are_looked_at(folder):
    """As in /tmp, where there are files of others."""
    folder.mkdir()
    (folder / "something-else").touch()
    assert is_free(0)
    assert [each.name for each in folder.iterdir()] == ["something-else"]


@as_root
def test_who_was_first_cannot_remove_the_claims_of_others(folder):
    """No user's folder counts, as its owner could; nor does one that is not sticky."""
    for owner, mode in ((NOBODY, 0o1777), (0, 0o777)):
        folder.mkdir()
        folder.chmod(mode)
        os.chown(folder, owner, owner)
        with another("0", 4321) as (_, said):
            assert "other controllers cannot see that CPUs 0 are shared out" in said
        assert list(folder.iterdir()) == []
        folder.rmdir()


@as_root
def test_the_files_of_one_user_do_not_hide_the_claims_of_another(folder):
    folder.mkdir()
    folder.chmod(0o1777)
    with another("0", NOBODY) as (_, said):
        assert said == "None"
        for number in range(300):
            file = folder / f"tf_malleable-claim-{number}"
            file.touch()
            os.chown(file, 4321, 4321)
        with another("0", 4322) as (_, said):
            assert "already shares out CPUs 0" in said


def test_without_a_folder_of_its_own_a_user_claims_in_tmp(monkeypatch):
    monkeypatch.delenv(cpu_claims.VARIABLE)
    monkeypatch.setattr(cpu_claims, "_ROOTS_FOLDER", "/proc/none")
    # A CPU that no host has: other tests may claim those that there are.
    one = Claim(frozenset({8191}), "/here")
    try:
        (file,) = Path("/tmp").glob(f"tf_malleable-claim-{os.geteuid()}-*")
        assert "cpus 8191\n" in file.read_text()
        assert not is_free(8191)
    finally:
        one.close()
    assert not file.exists()
