# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Folders that no other user can change, among real users of a machine."""

from __future__ import annotations

import ctypes
import os
import shutil
import stat
import struct
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from tests.support.deadline import DEADLINE
from tests.support.mount_namespaces import needs_mounts
from tests.support.users import said_as
from tf_malleable.linux.trusted_folder import TrustedFolder, open_trusted

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to be several users")
ME, OTHER = 4001, 4002


@pytest.fixture
def place():
    """A sticky folder of root's, as /tmp is."""
    found = Path(tempfile.mkdtemp(prefix="tfm-trust-"))
    found.chmod(0o1777)
    yield found
    shutil.rmtree(found)


def make(path: Path, uid: int, mode: int = 0o755) -> Path:
    path.mkdir()
    os.chown(path, uid, uid)
    path.chmod(mode)
    return path


def said(path: Path | str, uid: int = ME) -> str:
    """Return what comes of opening a folder: its path, or why it is refused."""

    def opened() -> str:
        with TrustedFolder(path) as found:
            return str(found.path)

    return said_as(uid, opened)


def test_a_folder_of_the_users_own_or_roots(place):
    for owner in (ME, 0):
        folder = make(make(place / f"{owner}", owner) / "inner", owner, 0o700 if owner else 0o755)
        assert said(folder) == str(folder)
    assert said("/") == "/"
    assert "neither root nor you" in said(place / str(ME), OTHER)


@pytest.mark.parametrize("depth", [0, 1], ids=["at the end", "on the way"])
@pytest.mark.parametrize(
    ("owner", "mode", "reason"),
    [
        (OTHER, 0o755, "belongs to user 4002, who is neither root nor you"),
        (OTHER, 0o1777, "belongs to user 4002, who is neither root nor you"),
        (ME, 0o775, "(mode 0775)"),
        (ME, 0o757, "(mode 0757)"),
        (0, 0o777, "(mode 0777)"),
    ],
)
def test_what_another_user_may_change_is_refused(place, depth, owner, mode, reason):
    folder = make(place / "folder", owner, mode)
    inner = make(folder / "inner", ME)
    found = said(inner if depth else folder)
    assert str(folder) in found
    assert reason in found


def test_a_sticky_folder_may_be_on_the_way_only(place):
    assert "(mode 1777)" in said(place)
    assert said(make(place / "mine", ME)) == str(place / "mine")


def test_what_is_in_a_sticky_folder_stays_where_it_is(place):
    """The kernel's rule, on which it rests that /tmp may be on the way."""
    for owner in (ME, 0):
        folder = make(place / f"{owner}", owner)
        for change in (folder.rmdir, lambda folder=folder: folder.rename(place / "gone")):
            assert "Operation not permitted" in said_as(OTHER, change)


def let_write(folder: Path, uid: int) -> None:
    """Let another user write, as setfacl -m u:UID:rwx does."""
    # For its owner, that user, the group, the mask, and others; see acl(5).
    nobody = 0xFFFFFFFF
    entries = ((1, 7, nobody), (2, 7, uid), (4, 5, nobody), (16, 7, nobody), (32, 5, nobody))
    acl = struct.pack("<I", 2) + b"".join(struct.pack("<HHI", *each) for each in entries)
    try:
        os.setxattr(folder, "system.posix_acl_access", acl)
    except OSError as error:
        pytest.skip(f"no ACLs here: {error}")


def test_an_acl_that_lets_another_user_write(place):
    folder = make(place / "mine", ME)
    let_write(folder, OTHER)
    assert "other users may write to" in said(folder)


@pytest.mark.parametrize("owner", [ME, 0, OTHER])
def test_a_link_in_a_sticky_folder_is_refused_whoever_owns_it(place, owner):
    make(place / "mine", ME)
    (place / "link").symlink_to("mine")
    os.chown(place / "link", owner, owner, follow_symlinks=False)
    assert said(place / "link") == (
        f"[Errno 13] {place}/link is a symbolic link in a folder that other users may write to"
    )


def test_links_of_the_users_own_or_roots_are_followed_by_the_same_rules(place):
    mine = make(place / "mine", ME)
    inner = make(mine / "inner", ME)
    for name, target in (("a", "inner"), ("b", str(inner)), ("c", "../mine/a"), ("loop", "loop")):
        (mine / name).symlink_to(target)
    for name in "abc":
        assert said(mine / name) == str(inner)
    make(mine / "inner" / "more", ME)
    assert said(mine / "c" / "more") == str(inner / "more")
    assert "Too many levels of symbolic links" in said(mine / "loop")
    os.chown(mine / "a", OTHER, OTHER, follow_symlinks=False)
    assert f"{mine}/a belongs to user {OTHER}" in said(mine / "a")
    (mine / "planted").symlink_to(make(place / "theirs", OTHER))
    assert f"{place}/theirs belongs to user {OTHER}" in said(mine / "planted")


@pytest.mark.parametrize("what", ["mkfifo", "file", "none"])
def test_what_is_no_folder(place, what):
    path = make(place / "mine", ME) / what
    if what == "mkfifo":
        os.mkfifo(path)
    elif what == "file":
        path.touch()
    problem = "No such file" if what == "none" else f"{path} is not a folder"
    assert problem in said(path)
    assert ("No such file" if what == "none" else problem) in said(path / "inner")


def test_missing_folders_are_created_where_nobody_else_may_change_them(place):
    path = place / "a" / "b"

    def created() -> str:
        os.umask(0)
        with TrustedFolder(path, 0o700) as found:
            return str(found.path)

    assert said_as(ME, created) == str(path)
    for each in (path, path.parent):
        about = each.stat()
        assert (about.st_uid, stat.S_IMODE(about.st_mode)) == (ME, 0o700)
    make(place / "theirs", OTHER, 0o777)
    path = place / "theirs" / "b"
    assert "belongs to user" in said_as(ME, created)
    assert not path.exists()


def test_files_in_it(place):
    folder = make(place / "mine", ME)
    for name, owner in (("mine", ME), ("roots", 0), ("theirs", OTHER)):
        (folder / name).touch()
        os.chown(folder / name, owner, owner)
        (folder / name).chmod(0o644)
    (folder / "link").symlink_to("mine")
    os.mkfifo(folder / "pipe")
    os.chown(folder / "pipe", ME, ME)
    (folder / "shared").mkdir(mode=0o777)
    found = {}
    for name in ("mine", "roots", "theirs", "link", "pipe", "shared", "none"):

        def opened(name: str = name) -> str:
            with TrustedFolder(folder) as found:
                os.close(found.open(name, os.O_RDONLY))
                return "opened"

        found[name] = said_as(ME, opened)
    assert found["mine"] == found["roots"] == "opened"
    assert f"{folder}/theirs belongs to user {OTHER}" in found["theirs"]
    assert "Too many levels of symbolic links" in found["link"]
    assert f"{folder}/pipe is not a regular file" in found["pipe"]
    assert f"{folder}/shared is not a regular file" in found["shared"]
    assert "No such file" in found["none"]

    def opened_folder() -> str:
        with TrustedFolder(folder) as found:
            os.close(found.open_folder("shared"))
            return "opened"

    assert said_as(ME, opened_folder) == "opened"
    os.chown(folder / "shared", OTHER, OTHER)
    assert f"{folder}/shared belongs to user {OTHER}" in said_as(ME, opened_folder)


@pytest.mark.parametrize(
    ("owner", "mode", "refused"),
    [
        (0, 0o1777, None),
        (ME, 0o1777, None),
        (0, 0o755, None),
        (0, 0o777, "other users may write to"),
        (OTHER, 0o1777, f"belongs to user {OTHER}"),
    ],
)
def test_a_folder_to_which_everybody_adds(place, owner, mode, refused):
    folder = make(place / "shared", owner, mode)
    (folder / "a").touch()

    def names() -> str:
        with TrustedFolder(folder, sticky=True) as found:
            return str(found.names())

    found = said_as(ME, names)
    assert refused in found if refused else found == "['a']"


def test_a_file_by_its_path(place):
    mine, theirs = make(place / "mine", ME), make(place / "theirs", OTHER)
    for folder, name, owner in ((mine, "a", ME), (mine, "b", OTHER), (theirs, "a", ME)):
        (folder / name).write_text(f"{folder}/{name}")
        os.chown(folder / name, owner, owner)
    (mine / "open").touch()
    (mine / "open").chmod(0o666)
    (mine / "link").symlink_to("a")
    (mine / "twice").symlink_to(mine / "link")
    (mine / "out").symlink_to(theirs / "a")
    (mine / "loop").symlink_to("loop")

    def read(path: Path) -> str:
        def content() -> str:
            with open(open_trusted(path, os.O_RDONLY)) as file:
                return file.read()

        return said_as(ME, content)

    for name in ("a", "link", "twice"):
        assert read(mine / name) == f"{mine}/a"
    assert f"{mine}/b belongs to user {OTHER}" in read(mine / "b")
    assert f"{theirs} belongs to user {OTHER}" in read(mine / "out")
    assert f"other users may write to {mine}/open (mode 0666)" in read(mine / "open")
    assert "Too many levels of symbolic links" in read(mine / "loop")
    assert "No such file" in read(mine / "none")
    assert f"{mine}/inner is not a regular file" in read(make(mine / "inner", ME))


CLONE_NEWUSER = 0x10000000
PR_SET_DUMPABLE = 4


def test_in_a_user_namespace_where_root_is_not_mapped(place):
    """As in a container of the user's own: / belongs to nobody whom it knows."""
    mine, roots = make(place / "mine", ME, 0o700), make(place / "roots", 0)
    theirs = make(place / "theirs", OTHER)

    def opened(path: Path) -> str:
        libc = ctypes.CDLL(None)
        libc.prctl(PR_SET_DUMPABLE, 1)  # As after exec(): /proc/self is the user's own.
        if libc.unshare(CLONE_NEWUSER):
            return "no namespace"
        Path("/proc/self/uid_map").write_text(f"0 {ME} 1")
        with TrustedFolder(path) as found:
            return str(found.path)

    found = said_as(ME, lambda: opened(mine))
    if found == "no namespace":
        pytest.skip("no user namespaces here")
    assert found == str(mine)
    for path in (roots, theirs):
        assert f"{path} belongs to user" in said_as(ME, lambda path=path: opened(path))


@needs_mounts
def test_a_mount_point_in_a_sticky_folder_is_refused(place):
    """A file system of another user's may say that everything belongs to root."""
    make(place / "mount", 0)
    script = (
        f'mount -t tmpfs -o mode=755 tmpfs "$1" && exec {sys.executable} -c'
        ' "from tf_malleable.linux.trusted_folder import TrustedFolder; import sys\n'
        "try: TrustedFolder(sys.argv[1])\n"
        'except OSError as error: print(error.strerror)" "$1"'
    )
    done = subprocess.run(
        ["unshare", "--mount", "sh", "-c", script, "sh", place / "mount"],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert (done.returncode, done.stdout) == (
        0,
        f"{place}/mount is a mount point in a folder that other users may write to\n",
    ), done.stderr


def _is_for_all() -> bool:
    """Return whether other users may run this Python, which may be in root's home."""
    as_me = ["setpriv", "--reuid", str(ME), "--regid", str(ME), "--clear-groups"]
    command = [*as_me, sys.executable, "-c", ""]
    return os.geteuid() == 0 and subprocess.run(command, capture_output=True).returncode == 0


OPEN = "import sys; from tf_malleable.linux.trusted_folder import *; TrustedFolder(sys.argv[1])"


@needs_mounts
@pytest.mark.skipif(not _is_for_all(), reason="needs a Python that an ordinary user can run")
@pytest.mark.parametrize(
    ("group", "acl", "is_refused"),
    [
        ("ada:x:4001:", False, False),
        ("ada:x:4001:ada", False, False),
        ("ada:x:4001:bob", False, True),
        ("staff:x:4001:", False, True),
        ("ada:x:4001:", True, True),
    ],
)
def test_a_group_that_its_owner_has_alone_may_write(place, group, acl, is_refused):
    """As useradd makes one for each user, with a umask of 002."""
    folder = make(place / "home", ME, 0o775)
    if acl:
        let_write(folder, OTHER)
    (place / "passwd").write_text("root:x:0:0::/:/bin/sh\nada:x:4001:4001::/:/bin/sh\n")
    (place / "group").write_text(f"root:x:0:\n{group}\n")
    mounts = [f"mount --bind {place}/{name} /etc/{name}" for name in ("passwd", "group")]
    as_ada = f"exec setpriv --reuid {ME} --regid {ME} --clear-groups"
    done = subprocess.run(
        [
            *("unshare", "--mount", "sh", "-ec", "\n".join([*mounts, f'{as_ada} "$@"']), "sh"),
            *(sys.executable, "-c", OPEN, folder),
        ],
        capture_output=True, text=True, check=False, timeout=DEADLINE,
    )  # fmt: skip
    if is_refused:
        assert f"other users may write to {folder}" in done.stderr
    else:
        assert (done.returncode, done.stderr) == (0, "")
