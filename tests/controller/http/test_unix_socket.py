# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""The controller's socket is private, and one controller's alone."""

from __future__ import annotations

import os
import re
import signal
import socket
import stat
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from tests.support.users import said_as
from tf_malleable.controller.http.unix_socket import ListenError, UnixListener

HOLD = """
import sys, time
from pathlib import Path
from tf_malleable.controller.http.unix_socket import ListenError, UnixListener
try:
    listener = UnixListener(Path(sys.argv[1]))
except ListenError as error:
    print(error, flush=True)
else:
    listener.socket.listen()
    print("listening", flush=True)
    sys.stdin.read()
"""


def hold(path):
    """Start a process that listens, or says why it cannot."""
    return subprocess.Popen(
        [sys.executable, "-c", HOLD, str(path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )


def mode(path):
    return stat.S_IMODE(os.lstat(path).st_mode)


@pytest.fixture
def path(tmp_path):
    return tmp_path / "run" / "controller.sock"


@pytest.mark.parametrize("umask", [0o000, 0o022, 0o077])
def test_directory_and_socket_are_private(path, umask):
    before = os.umask(umask)
    try:
        listener = UnixListener(path)
    finally:
        os.umask(before)
    try:
        assert mode(path.parent) == 0o700
        assert mode(path) == 0o600
        assert mode(f"{path}.lock") & 0o077 == 0
    finally:
        listener.close()
    assert not path.exists()


@pytest.mark.parametrize("open_to", [0o750, 0o705, 0o755, 0o1777, 0o701])
def test_a_directory_open_to_others_is_refused_until_the_remedy_is_taken(path, open_to):
    path.parent.mkdir()
    path.parent.chmod(open_to)
    with pytest.raises(ListenError, match=f"open to other users .mode {open_to:04o}.") as caught:
        UnixListener(path)
    assert list(path.parent.iterdir()) == []
    remedy = re.search(r"run (chmod .*)$", str(caught.value))
    subprocess.run(remedy[1].split(), check=True)
    UnixListener(path).close()


@pytest.mark.skipif(os.geteuid() == 0, reason="root's directories are root's own")
def test_a_directory_of_root_s_is_refused():
    with pytest.raises(ListenError, match="belongs to another user: choose one of your own"):
        UnixListener(Path("/usr/controller.sock"))


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can act as other users")
@pytest.mark.parametrize("level", ["place", "place/run"])
@pytest.mark.parametrize("how", ["owner", "mode"])
def test_where_another_user_can_change_the_way_nobody_listens(level, how):
    """Whoever can, could put a directory and a socket of that user's there later."""
    me, other = 4001, 4002
    with TemporaryDirectory() as name:
        top = Path(name)
        top.chmod(0o755)
        path = top / "place" / "run" / "controller.sock"
        for folder in (path.parent.parent, path.parent):
            folder.mkdir(mode=0o700)
            os.chown(folder, me, me)
        assert said_as(me, lambda: UnixListener(path).close()) == "None"
        folder = top / level
        folder.chmod(0o777)
        why = f"other users may write to {folder} (mode 0777)"
        if how == "owner":
            os.chown(folder, other, other)
            why = f"{folder} belongs to user {other}, who is neither root nor you"
        assert said_as(me, lambda: UnixListener(path)) == (
            f"cannot use the socket's directory {path.parent}: {why}: choose another with --socket"
        )
        assert not path.exists()


def test_what_is_no_directory_is_refused(tmp_path):
    (tmp_path / "file").write_text("")
    (tmp_path / "real").mkdir(mode=0o700)
    (tmp_path / "link").symlink_to("real")
    for folder in (tmp_path / "file", tmp_path / "file" / "run"):
        with pytest.raises(ListenError, match=f"{tmp_path / 'file'} is not a folder: choose"):
            UnixListener(folder / "controller.sock")
    listener = UnixListener(tmp_path / "link" / "controller.sock")
    assert (tmp_path / "real" / "controller.sock").is_socket()
    listener.close()


def test_folders_that_are_missing_are_made(tmp_path):
    """As in ~/.local/state, of a user who had no program there yet."""
    folder = tmp_path / "missing" / "run"
    UnixListener(folder / "controller.sock").close()
    assert folder.stat().st_mode & 0o777 == 0o700


def test_a_path_is_at_most_as_long_as_the_kernel_allows(tmp_path):
    room = 107 - len(os.fsencode(tmp_path)) - len("/run/")
    fits = tmp_path / "run" / ("x" * room)
    UnixListener(fits).close()
    with pytest.raises(ListenError, match=r"at most 107 bytes, and .* has 108: choose a shorter"):
        UnixListener(tmp_path / "run" / ("x" * (room + 1)))
    with pytest.raises(ListenError, match="at most 107 bytes"):
        UnixListener(tmp_path / "run" / ("ä" * (room // 2 + 1)))


def test_a_second_one_is_refused_and_told_who_is_first(path):
    first = hold(path)
    try:
        assert first.stdout.readline() == "listening\n"
        with pytest.raises(ListenError) as caught:
            UnixListener(path)
        assert str(caught.value) == f"a controller (pid {first.pid}) already listens at {path}"
        first.communicate("")
        UnixListener(path).close()
    finally:
        first.kill()
        first.communicate()


def test_the_socket_of_a_killed_one_is_replaced(path):
    first = hold(path)
    assert first.stdout.readline() == "listening\n"
    first.send_signal(signal.SIGKILL)
    first.communicate()
    assert stat.S_ISSOCK(os.lstat(path).st_mode)
    second = hold(path)
    try:
        assert second.stdout.readline() == "listening\n"
        with socket.socket(socket.AF_UNIX) as client:
            client.connect(str(path))
    finally:
        second.kill()
        second.communicate()


def test_of_many_at_once_one_wins(path):
    rivals = [hold(path) for _ in range(8)]
    try:
        said = [rival.stdout.readline() for rival in rivals]
    finally:
        for rival in rivals:
            rival.kill()
            rival.communicate()
    assert said.count("listening\n") == 1
    refusal = re.compile(
        rf"a controller( \(pid \d+\))? already listens at {re.escape(str(path))}\n"
    )
    assert sum(refusal.fullmatch(line) is not None for line in said) == 7


def test_what_is_no_stale_socket_stays(path):
    path.parent.mkdir(mode=0o700)
    path.write_text("precious")
    with pytest.raises(ListenError, match="exists and is not a socket"):
        UnixListener(path)
    assert path.read_text() == "precious"
    path.unlink()
    with socket.socket(socket.AF_UNIX) as other:
        other.bind(str(path))
        other.listen()
        with pytest.raises(ListenError, match="another program listens at"):
            UnixListener(path)
        with socket.socket(socket.AF_UNIX) as client:
            client.connect(str(path))
    UnixListener(path).close()


def test_only_its_own_socket_is_removed(path):
    listener = UnixListener(path)
    path.unlink()
    path.write_text("somebody else's")
    listener.close()
    assert path.read_text() == "somebody else's"


def test_a_refusal_leaves_no_descriptor(path):
    path.parent.mkdir(mode=0o700)
    path.write_text("")
    before = os.listdir("/proc/self/fd")
    for _ in range(3):
        with pytest.raises(ListenError):
            UnixListener(path)
    assert os.listdir("/proc/self/fd") == before


def test_a_lock_that_cannot_be(path):
    path.parent.mkdir(mode=0o700)
    (path.parent / "controller.sock.lock").symlink_to("elsewhere")
    with pytest.raises(ListenError, match=r"cannot open the lock file .*: "):
        UnixListener(path)
    assert not (path.parent / "elsewhere").exists()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may give a file to any group")
def test_a_group_may_enter_and_connect_but_not_create(path):
    UnixListener(path).close()
    # What was private before is opened.
    listener = UnixListener(path, 12345)
    assert (mode(path.parent), mode(path)) == (0o750, 0o660)
    assert (path.parent.stat().st_gid, path.stat().st_gid) == (12345, 12345)
    listener.close()
    UnixListener(path, 12345).close()
    for group, open_to, why in (
        (12346, 0o750, "is not that group's, or others may enter"),
        (12345, 0o755, "is not that group's, or others may enter"),
        (12345, 0o770, "other users may write to"),
    ):
        path.parent.chmod(open_to)
        with pytest.raises(ListenError, match=why):
            UnixListener(path, group)
    path.parent.chmod(0o750)
    with pytest.raises(ListenError, match="open to other users"):
        UnixListener(path)
