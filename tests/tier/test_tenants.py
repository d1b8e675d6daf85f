# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Several users of one tier: each reads what the source lets him read, and nobody spoils it."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import Any

import pytest

from tests.support.controllers import ask, wait_for
from tests.support.fuse_source import FuseSource, mounted
from tests.support.tiers import TierNode, make_source, one_node, read_until, settle
from tests.support.users import said_as
from tf_malleable.api.transport.tier_address import SHIM
from tf_malleable.linux.file_status import cached_status
from tf_malleable.tier.protocol import Identity, ReaderCounts
from tf_malleable.tier.store import tenancy
from tf_malleable.tier.store.partial_copy import is_still

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to be several users"),
]
ONE, TWO, THREE = 4001, 4002, 4003
BIG = os.urandom((2 << 20) + 777)
SMALL = b"small"
_COUNTS_BYTES = 8 * len(ReaderCounts())


@pytest.fixture
def folder():
    # Of pytest's own folders other users may not enter any.
    found = Path(tempfile.mkdtemp(prefix="tfm-tenants-"))
    found.chmod(0o755)
    shutil.copy(SHIM, found / "shim.so")
    yield found
    shutil.rmtree(found)


@pytest.fixture
def source(folder):
    found = make_source(
        folder / "source",
        {"big": BIG, "small": SMALL, "own/secret": b"secret" * 1000, "group": b"group" * 1000},
    )
    os.chown(found / "own", ONE, ONE)
    (found / "own").chmod(0o700)
    os.chown(found / "own/secret", ONE, ONE)
    os.chown(found / "group", ONE, ONE)
    (found / "group").chmod(0o640)
    return found


@pytest.fixture
def node(folder, source):
    with one_node(folder, source, "--shared") as found:
        found.folder.chmod(0o755)
        yield found


def counts_of(node: TierNode, uid: int) -> Path:
    """Return the file in which a user's readers count."""
    return node.folder.parent / f"counts-{uid}"


def is_hit(node: TierNode, uid: int, path: Path, data: bytes) -> bool:
    """Return whether a user reads a file from a copy, as his reader itself counts."""

    def hits() -> int:
        # The first number of Counts in protocol.h.
        return int.from_bytes(counts_of(node, uid).read_bytes()[:8], "little")

    before = hits() if counts_of(node, uid).exists() else 0
    assert read(node, uid, path) == data
    return hits() == before + 1


def have_copied(node: TierNode, uid: int, path: Path, data: bytes, area: str = "public") -> Path:
    """Have a user read a file until it has a copy in an area; return the copy."""
    copy = node.copy(path, area)

    def read_it() -> None:
        assert read(node, uid, path) == data

    read_until(copy.exists, read_it)
    return copy


def reader_of(node: TierNode, uid: int, *command: str, text: bool = True) -> subprocess.Popen[Any]:
    """Start a program of another user that reads through the tier."""
    counts = counts_of(node, uid)
    if not counts.exists():
        counts.write_bytes(bytes(_COUNTS_BYTES))
        os.chown(counts, uid, uid)
    return subprocess.Popen(
        command,
        env={
            "PATH": os.environ["PATH"],
            "LD_PRELOAD": str(node.folder.parent / "shim.so"),
            "TF_MALLEABLE_TIER": f"socket={node.socket}\ncounts={counts}",
        },
        user=uid, group=uid, extra_groups=[], text=text,
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    )  # fmt: skip


def read(node: TierNode, uid: int, path: Path) -> bytes | None:
    """Return what another user reads through the tier; None if he may not."""
    with reader_of(node, uid, "cat", str(path), text=False) as reader:
        data, _ = reader.communicate()
    return data if reader.returncode == 0 else None


def test_what_everybody_may_read_is_copied_once_by_the_daemon(node, source):
    for path, data in ((source / "big", BIG), (source / "small", SMALL)):
        copy = have_copied(node, ONE, path, data)
        assert copy.read_bytes() == data
        assert copy.stat().st_uid == 0
        assert is_hit(node, TWO, path, data)
        assert is_hit(node, THREE, path, data)
    assert node.status()["copies"] == 2


@pytest.mark.parametrize("name", ["group", "own/secret"])
def test_what_only_some_may_read_each_has_of_his_own(node, source, name):
    path = source / name
    data = path.read_bytes()
    copy = have_copied(node, ONE, path, data, f"private/{ONE}")
    assert copy.read_bytes() == data
    assert not node.copy(path, "public").exists()
    assert read(node, TWO, path) is None
    assert read(node, TWO, copy) is None
    assert is_hit(node, ONE, path, data)


def test_a_file_that_is_not_everybodys_any_more(node, source):
    path = source / "small"
    copy = have_copied(node, ONE, path, SMALL)
    path.chmod(0o600)
    assert read(node, ONE, path) is None
    wait_for(lambda: not copy.exists())


def test_a_folder_that_is_closed_takes_its_public_copies_along(node, source):
    inner = source / "inner" / "most"
    path = make_source(inner, {"file": SMALL}) / "file"
    copy = have_copied(node, ONE, path, SMALL)
    (source / "inner").chmod(0o700)
    assert read(node, ONE, path) is None
    wait_for(lambda: not copy.exists())
    (source / "inner").chmod(0o755)
    assert read(node, ONE, path) == SMALL


def test_a_user_cannot_change_what_is_everybodys(node, source):
    copy = have_copied(node, ONE, source / "big", BIG)
    script = (
        f"echo x >> '{copy}'; rm -f '{copy}'; mv '{copy}' '{copy}.2'; echo x > '{copy.parent}/new';"
        f"ls '{node.store}/growing/private/{ONE}' '{node.store}/private/{ONE}'"
    )
    done = subprocess.run(
        ["sh", "-c", script], user=TWO, group=TWO, extra_groups=[], capture_output=True, check=False
    )
    assert (done.returncode, done.stdout) == (2, b"")
    assert read(node, THREE, source / "big") == copy.read_bytes() == BIG


def test_the_folders_of_a_user_are_his_alone(node, source):
    growing = node.store / "growing" / "private" / str(ONE)
    read_until(
        lambda: growing.exists() and tenancy.ACL_ATTRIBUTE in os.listxattr(growing),
        lambda: read(node, ONE, source / "group"),
    )
    for folder in (node.store / "private", node.store / "growing" / "private"):
        own = folder / str(ONE)
        assert own.stat().st_uid == 0
        assert os.getxattr(own, tenancy.ACL_ATTRIBUTE) == tenancy.search_acl(ONE)


def test_a_folder_that_is_closed_ends_the_copies_that_grow_in_it(node, source):
    path = source / "own" / "big"
    path.write_bytes(BIG)
    os.chown(path, ONE, ONE)
    settle(path)
    # Not Python, whose folder other users may not enter everywhere.
    code = (
        "$| = 1; sysopen(my $file, $ARGV[0], 0); my $size = sysread($file, my $data, 1 << 20);"
        'print "begun\\n"; <STDIN>;'
        "while (my $more = sysread($file, $data, 1 << 20)) { $size += $more } print $size;"
    )
    with reader_of(node, ONE, "perl", "-e", code, str(path)) as reader:
        reader.stdout.readline()
        growing = node.store / "growing" / "private" / str(ONE)
        wait_for(lambda: list(growing.glob("*.part")))
        (source / "own").chmod(0o700)
        wait_for(lambda: not list(growing.glob("*.part")))
        said, _ = reader.communicate("\n")
    assert int(said) == len(BIG)
    assert not node.copy(path, f"private/{ONE}").exists()


def test_a_death_while_the_folders_of_a_user_were_made(node, source):
    """They have no ACL yet, and get it when he is back."""
    node.kill()
    for folder in (node.store / "private", node.store / "growing" / "private"):
        (folder / str(ONE)).mkdir(mode=0o700, parents=True)
    node.start()
    path = source / "group"
    data = path.read_bytes()
    have_copied(node, ONE, path, data, f"private/{ONE}")
    assert is_hit(node, ONE, path, data)


def test_a_control_that_not_everybody_may_use(node, source):
    script = f"exec 3<>/dev/null; cat < /dev/null; test -w '{node.socket}.control'"
    done = subprocess.run(["sh", "-c", script], user=TWO, group=TWO, extra_groups=[], check=False)
    assert done.returncode == 0  # He may ask why,
    said = said_as(TWO, lambda: ask(f"{node.socket}.control", "POST", "/v1/drop", {"paths": []}))
    assert "only the tier's own user and root may do that" in said


def test_who_asks_why_is_told_what_he_may_see_only(node, source):
    """The tier is root's, and could look at everything."""
    hidden = source / "hidden"
    hidden.mkdir(mode=0o700)
    (hidden / "secret").write_bytes(b"x" * 1000)
    (source / "link").symlink_to("/root")

    def why(uid, path):
        def ask_why():
            status, said = ask(f"{node.socket}.control", "POST", "/v1/why", {"paths": [str(path)]})
            return f"{status} {said['sentence']}"

        return said_as(uid, ask_why)

    paths = (hidden / "secret", hidden / "none", source / "none")
    unseen = {why(TWO, path).replace(str(path), "") for path in paths}
    problem = "there is no such file, or not every user may read it"
    assert unseen == {f"200 nowhere: the tier cannot look at : {problem}"}
    assert "No such file" in why(0, hidden / "none")
    assert "nowhere" not in why(0, hidden / "secret")
    for path in ("..", "../../../../../root", "../../none", "link", "link/none"):
        assert why(TWO, source / path).startswith(f"200 the source: {source / path} is not below")


@pytest.mark.parametrize("remembered_s", [1, 0])
def test_where_root_may_not_read_who_may_gets_a_copy(folder, remembered_s):
    """As with root_squash: the daemon cannot even look at the file.

    Once the kernel must ask for a name again, it is refused, and calls the open file deleted.
    """
    served = FuseSource({"file": BIG, "small": SMALL})
    served.only, served.remembered_s = ONE, remembered_s
    source = folder / "squashed"
    source.mkdir()
    with mounted(served, source):
        with pytest.raises(PermissionError):
            (source / "file").read_bytes()
        with one_node(folder, source, "--shared") as node:
            node.folder.chmod(0o755)
            for name, data in (("file", BIG), ("small", SMALL)):
                path = source / name
                copy = have_copied(node, ONE, path, data, f"private/{ONE}")
                assert copy.read_bytes() == data
                assert is_hit(node, ONE, path, data)
                assert read(node, TWO, path) is None


@pytest.mark.parametrize("is_removed", [False, True])
def test_where_root_may_not_look_only_a_removed_file_is_gone(folder, is_removed):
    served = FuseSource({"file": SMALL})
    served.remembered_s = 0
    with mounted(served, folder), (folder / "file").open("rb") as opened:
        source = opened.fileno()
        identity = Identity.of(cached_status(source))
        if is_removed:
            (folder / "file").unlink()
        served.only = ONE
        for _ in range(2):
            assert is_still(str(folder / "file"), identity, source) is not is_removed
        assert os.readlink(f"/proc/self/fd/{source}") == f"{folder}/file (deleted)"
        served.only = None
