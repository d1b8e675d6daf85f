# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Of a tier's files is believed only what root or the reader has put there. Real users do it."""

from __future__ import annotations

import os
import shutil
import socket
import stat
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.support.controllers import wait_for
from tests.support.deadline import DEADLINE
from tests.support.mount_namespaces import needs_mounts
from tests.support.tiers import make_source, one_node, read_until, settle
from tests.support.users import become, said_as
from tf_malleable.api.transport import tier_address
from tf_malleable.api.transport.tier_address import (
    ROOT_TIER_SOCKET,
    SHIM,
    TIER_SOCKET,
    default_tier_socket,
    own_tier_socket,
)
from tf_malleable.cli.tier.join import join_tier
from tf_malleable.linux.trusted_folder import TrustedFolder
from tf_malleable.tier import daemon
from tf_malleable.tier.protocol import SOURCE_ATTRIBUTE, Identity, StateFlag
from tf_malleable.tier.readers.state_file import LifeSign
from tf_malleable.tier.settings import TierSettings

pytestmark = [
    pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to be several users"),
    # They use the same folders in /tmp and /run.
    pytest.mark.xdist_group("trust"),
]
VICTIM, HOSTILE = 4001, 4002
# Of whom no test makes a /run/user/UID.
STRANGER = 4009
VARIABLES = (TIER_SOCKET, "XDG_RUNTIME_DIR", "XDG_STATE_HOME", "HOME")
MINE, THEIRS = b"print('mine')\n", b"print('theirs')\n"
DATA = b"data" * 1000


@pytest.fixture
def place():
    """A sticky folder of root's, as /tmp is."""
    found = Path(tempfile.mkdtemp(prefix="tfm-trust-"))
    found.chmod(0o1777)
    shutil.copy(SHIM, found / "shim.so")
    yield found
    shutil.rmtree(found)


def make(path: Path, uid: int, mode: int = 0o755) -> Path:
    path.mkdir(parents=True, exist_ok=True)
    os.chown(path, uid, uid)
    path.chmod(mode)
    return path


def write(path: Path, data: bytes, uid: int, mode: int = 0o644) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)
    os.chown(path, uid, uid)
    path.chmod(mode)
    settle(path)
    return path


def cat(place: Path, uid: int, variable: str, path: Path, words: Sequence[str] = ("cat",)) -> bytes:
    """Return what a user's cat(1) reads with the shim."""
    return subprocess.run(
        [*words, path],
        env={
            "PATH": os.environ["PATH"],
            "LD_PRELOAD": f"{place}/shim.so",
            "TF_MALLEABLE_TIER": variable,
        },
        user=uid, group=uid, extra_groups=[], capture_output=True, check=True, timeout=DEADLINE,
    ).stdout  # fmt: skip


def joined(uid: int, **environment: str) -> tuple[str, str]:
    """Return what `tfm run --tier` of a user sets for programs, and what it prints."""

    def join() -> str:
        for name in ("TF_MALLEABLE_TIER", *VARIABLES):
            os.environ.pop(name, None)
        os.environ.update(environment)
        with tempfile.TemporaryFile() as said:
            os.dup2(said.fileno(), 2)
            sys.stderr = os.fdopen(2, "w", closefd=False)
            join_tier()
            sys.stderr.flush()
            said.seek(0)
            return os.environ.get("TF_MALLEABLE_TIER", "") + "\0" + said.read().decode()

    variable, _, said = said_as(uid, join).partition("\0")
    return variable, said


@pytest.fixture
def program(place):
    """A program of the victim's."""
    make(place / "home", VICTIM, 0o711)
    return write(place / "home" / "train.py", MINE, VICTIM)


def plant_copy(store: Path, path: Path, uid: int) -> None:
    """Put a changed copy of a file into a store, with the attribute that makes it one."""
    for area in ("public", f"private/{VICTIM}"):
        copy = write(Path(f"{store}/{area}{path}"), THEIRS, uid)
        identity = Identity.of(path.stat())._replace(copy_inode=copy.stat().st_ino)
        os.setxattr(copy, SOURCE_ATTRIBUTE, identity.encode())


def planted_store(place: Path, program: Path, uid: int = HOSTILE) -> Path:
    """Make a store with a changed copy of the program."""
    store = make(place / "planted-store", uid)
    plant_copy(store, program, uid)
    return store


@contextmanager
def life_sign(folder: Path, store: Path, source: Path, uid: int) -> Iterator[None]:
    """Have a state file that says that a tier lives, and a socket; both are a user's."""
    for each in (folder, *folder.iterdir()):
        os.chown(each, 0, 0)
    with TrustedFolder(folder) as opened:
        sign = LifeSign(opened, "tier.sock.state", 0o644, store, (source,))
    os.chown(folder / "tier.sock.state", uid, uid)
    os.chown(folder, uid, uid)
    sign.publish(StateFlag.SHARED, 0)
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as listening:
        listening.bind(str(folder / "tier.sock"))
        os.chmod(folder / "tier.sock", 0o666)
        listening.listen()
        yield
    sign.close()


@pytest.fixture
def shared(place):
    """Root's tier for everybody, with its data."""
    source = make_source(make(place / "source", 0), {"file": DATA})
    make(place / "roots", 0)
    with one_node(place / "roots", source, "--shared") as node:
        node.folder.chmod(0o755)
        yield node


@pytest.fixture
def default_folder(monkeypatch, place, shared):
    """A user's default folder of old; and root's socket where it is by default."""
    monkeypatch.setattr(tier_address, "ROOT_TIER_SOCKET", str(shared.socket))
    found = Path(f"/tmp/tf_malleable-tier-{VICTIM}")
    assert not found.exists()
    yield found
    shutil.rmtree(found, ignore_errors=True)


def reader_file(shared, place: Path, program: Path) -> bytes:
    store = planted_store(place, program)
    return f"socket={shared.socket}\nstore={store}\nsource={program.parent}\n".encode()


def test_what_another_user_plants_below_tmp_is_not_looked_at(
    place, program, shared, default_folder
):
    """It names root's living socket, and another store, which has the victim's program."""
    make(default_folder, HOSTILE)
    write(default_folder / "tier.sock", b"", HOSTILE, 0o666)
    said = reader_file(shared, place, program)
    write(default_folder / "tier.sock.reader", said, HOSTILE)
    variable, printed = joined(VICTIM, HOME=str(program.parent))
    assert variable.startswith(f"socket={shared.socket}\n"), printed
    assert cat(place, VICTIM, variable, program) == MINE
    # And if nevertheless the variable has it all:
    assert cat(place, VICTIM, said.decode(), program) == MINE


def test_the_same_where_the_user_says_that_the_tier_is(place, program, shared, default_folder):
    make(default_folder, HOSTILE)
    write(default_folder / "tier.sock.reader", reader_file(shared, place, program), HOSTILE)
    write(default_folder / "tier.sock.state", b"", HOSTILE)
    variable, printed = joined(VICTIM, **{TIER_SOCKET: f"{default_folder}/tier.sock"})
    assert (variable, printed) == (
        "",
        f"tfm: no tier at {default_folder}/tier.sock ({default_folder} belongs to user {HOSTILE},"
        " who is neither root nor you), reading from the source\n",
    )


@pytest.mark.parametrize(
    "plant", ["group", "everybody", "link", "pipe", "state", "state's link", "another's home"]
)
def test_what_another_user_could_have_put_there_is_refused_by_the_command(place, plant):
    folder = make(place / "run", VICTIM)
    state = folder / "tier.sock.state"
    if plant == "another's home":
        folder = make(make(place / "theirs", HOSTILE) / "run", VICTIM)
    elif plant in ("group", "everybody"):
        folder.chmod(0o775 if plant == "group" else 0o757)
    elif plant == "link":
        folder = place / "link"
        folder.symlink_to(place / "run")
    elif plant == "pipe":
        os.mkfifo(state)
        os.chown(state, VICTIM, VICTIM)
    elif plant == "state":
        write(state, b"", HOSTILE)
    elif plant == "state's link":
        state.symlink_to(write(place / "other", b"", VICTIM))
    variable, printed = joined(
        VICTIM, XDG_RUNTIME_DIR="/none", **{TIER_SOCKET: f"{folder}/tier.sock"}
    )
    assert variable == ""
    assert printed.startswith(f"tfm: no tier at {folder}/tier.sock (")
    reasons = {
        "group": f"other users may write to {folder} (mode 0775)",
        "everybody": f"other users may write to {folder} (mode 0757)",
        "link": f"{folder} is a symbolic link in a folder that other users may write to",
        "pipe": f"{state} is not a regular file",
        "state": f"{state} belongs to user {HOSTILE}, who is neither root nor you",
        "state's link": "Too many levels of symbolic links",
        "another's home": f"{place}/theirs belongs to user {HOSTILE}, who is neither root nor you",
    }
    assert f"({reasons[plant]}), reading from the source\n" in printed


@pytest.fixture
def trusted(place, program):
    """Folder, store and variable of a tier of the victim's, whose copy of the program differs."""
    folder, store = make(place / "run", VICTIM), planted_store(place, program, VICTIM)
    with life_sign(folder, store, program.parent, VICTIM):
        yield folder, store, f"socket={folder}/tier.sock"


def test_the_users_own_tier_is_believed(place, program, trusted):
    _, _, variable = trusted
    assert cat(place, VICTIM, variable, program) == THEIRS
    assert cat(place, HOSTILE, variable, program) == MINE


def test_in_a_container_of_the_users_own_it_is_believed_too(place, program, trusted):
    """The user is root there, and the host's root, to whom / belongs, is nobody."""
    folder, _, variable = trusted
    words = ["unshare", "--user", "--map-root-user", "cat"]
    if subprocess.run([*words, os.devnull], user=VICTIM, check=False).returncode:
        pytest.skip("no user namespaces here")
    assert cat(place, VICTIM, variable, program, words) == THEIRS
    make(folder, 0)
    assert cat(place, VICTIM, variable, program, words) == MINE


@pytest.mark.parametrize(
    "change",
    ["folder's owner", "folder's mode", "sticky folder", "state's owner", "state's link",
     "state's pipe", "store's owner", "store's mode", "other store", "linked store",
     "linked folder"],
)  # fmt: skip
def test_the_shim_checks_by_itself(place, program, trusted, change):
    folder, store, variable = trusted
    state = folder / "tier.sock.state"
    changes = {
        "folder's owner": lambda: os.chown(folder, HOSTILE, HOSTILE),
        "folder's mode": lambda: folder.chmod(0o775),
        "sticky folder": lambda: folder.chmod(0o1777),
        "state's owner": lambda: os.chown(state, HOSTILE, HOSTILE),
        "state's link": lambda: (state.rename(place / "s"), state.symlink_to(place / "s")),
        "state's pipe": lambda: (state.unlink(), os.mkfifo(state)),
        "store's owner": lambda: os.chown(store, HOSTILE, HOSTILE),
        "store's mode": lambda: store.chmod(0o777),
        "other store": lambda: (store.rename(place / "x"), shutil.copytree(place / "x", store)),
        "linked store": lambda: (store.rename(place / "x"), store.symlink_to(place / "x")),
        "linked folder": lambda: (folder.rename(place / "x"), folder.symlink_to(place / "x")),
    }
    changes[change]()
    assert cat(place, VICTIM, variable, program) == MINE


def test_a_variable_names_only_what_the_daemon_has(place, program, trusted):
    _, store, variable = trusted
    other = write(place / "other" / "file", MINE, VICTIM)
    plant_copy(store, other, VICTIM)
    # A source that the daemon does not have, or another path for one that it has.
    assert cat(place, VICTIM, f"{variable}\nsource={other.parent}", other) == MINE
    # As if it were mounted there.
    here = make(place / "here", VICTIM) / "train.py"
    os.link(program, here)
    plant_copy(store, program, VICTIM)
    renamed = f"{variable}\nsource={here.parent}\nas={program.parent}"
    assert cat(place, VICTIM, renamed, here) == THEIRS
    assert cat(place, VICTIM, renamed, program) == MINE


@needs_mounts
def test_the_store_is_known_under_another_path(place, program, trusted):
    """As in a container, which has it mounted elsewhere."""
    _, store, variable = trusted
    make(place / "mnt", 0)
    script = 'mount --bind "$1" "$2" && shift 2 && exec "$@"'
    elsewhere, false = place / "mnt" / "tier", place / "mnt" / "false"
    make(elsewhere, 0)
    shutil.copytree(store, make(false, VICTIM), dirs_exist_ok=True)
    for named, expected in ((elsewhere, THEIRS), (false, MINE)):
        done = subprocess.run(
            ["unshare", "--mount", "sh", "-c", script, "sh", store, elsewhere, "setpriv",
             f"--reuid={VICTIM}", f"--regid={VICTIM}", "--clear-groups", "cat", program],
            env={"PATH": os.environ["PATH"], "LD_PRELOAD": f"{place}/shim.so",
                 "TF_MALLEABLE_TIER": f"{variable}\nstore={named}"},
            capture_output=True, check=False, timeout=DEADLINE,
        )  # fmt: skip
        assert (done.returncode, done.stdout) == (0, expected), done.stderr


def test_nothing_is_sent_to_a_socket_on_which_another_user_listens(place, program, trusted):
    """He cannot have bound it there, unless the folder was open to others once."""
    folder, _, variable = trusted
    (folder / "tier.sock").unlink()
    make(folder, HOSTILE)
    listening, tells = os.pipe()

    def listen() -> str:
        with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as server:
            server.bind(str(folder / "tier.sock"))
            server.listen()
            os.write(tells, b"listens")
            server.settimeout(DEADLINE)
            reader, _ = server.accept()
            with reader:
                reader.settimeout(DEADLINE)
                return f"heard {reader.recv(4096)!r}"

    with ThreadPoolExecutor() as pool:
        heard = pool.submit(said_as, HOSTILE, listen)
        assert os.read(listening, 100) == b"listens"
        make(folder, VICTIM)
        (folder / "tier.sock").chmod(0o777)
        assert cat(place, VICTIM, variable, program) == THEIRS
        assert heard.result(60) == "heard b''"
    os.close(listening)
    os.close(tells)


def test_for_all_users_root_s_tier_comes_first(place, program, shared, default_folder):
    make(program.parent, VICTIM, 0o700)
    own = make(program.parent / "run" / "tf_malleable-tier", VICTIM, 0o700)
    make(own.parent, VICTIM, 0o700)
    write(own / "tier.sock.state", b"", VICTIM)
    write(own / "tier.sock", b"", VICTIM)
    environment = {"HOME": str(program.parent), "XDG_RUNTIME_DIR": str(own.parent)}
    variable, printed = joined(VICTIM, **environment)
    assert variable.startswith(f"socket={shared.socket}\ncounts={shared.socket}.jobs/"), printed
    path = shared.source / "file"

    def read() -> None:
        assert cat(place, VICTIM, variable, path) == DATA

    read_until(lambda: shared.copy(path, "public").exists(), read)
    read()
    wait_for(lambda: shared.counted("copy_opens") > 0)
    # If others may not write to it, or could replace it, it is none for them.
    shared.socket.chmod(0o600)
    assert joined(VICTIM, **environment)[0].startswith(f"socket={own}/tier.sock\n")
    shared.socket.chmod(0o666)
    shared.folder.chmod(0o777)
    assert joined(VICTIM, **environment)[0].startswith(f"socket={own}/tier.sock\n")


def found_at(uid: int, **environment: str) -> str:
    """Return where a user's tier is looked for, and where it listens, if these are the same."""

    def find() -> str:
        for name in VARIABLES:
            os.environ.pop(name, None)
        os.environ.update(environment)
        assert default_tier_socket() == own_tier_socket()
        return str(own_tier_socket())

    return said_as(uid, find)


def test_where_the_tier_of_a_user_is(monkeypatch, tmp_path):
    monkeypatch.setattr(tier_address, "ROOT_TIER_SOCKET", str(tmp_path / "none"))
    name = "tf_malleable-tier"
    host = os.uname().nodename
    assert found_at(STRANGER, TF_MALLEABLE_TIER_SOCKET="/x/y", HOME="/h") == "/x/y"
    assert found_at(STRANGER, XDG_RUNTIME_DIR="/r", HOME="/h") == f"/r/{name}/tier.sock"
    expected = f"/h/.local/state/{name}/{host}/tier.sock"
    assert found_at(STRANGER, HOME="/h") == expected
    assert found_at(STRANGER, HOME="/h", XDG_RUNTIME_DIR="r", XDG_STATE_HOME="s") == expected
    assert found_at(STRANGER, HOME="/h", XDG_STATE_HOME="/s") == f"/s/{name}/{host}/tier.sock"
    # Where nobody but root can create anything.
    assert found_at(STRANGER) == f"/run/user/{STRANGER}/{name}/tier.sock"
    assert found_at(0, XDG_RUNTIME_DIR="/r", HOME="/h") == str(tmp_path / "none")
    assert ROOT_TIER_SOCKET == "/run/tf_malleable-tier/tier.sock"


def test_the_folder_that_systemd_makes_is_taken_if_it_is_closed(monkeypatch, tmp_path):
    monkeypatch.setattr(tier_address, "ROOT_TIER_SOCKET", str(tmp_path / "none"))
    own = Path(f"/run/user/{VICTIM}")
    if own.exists() or not own.parent.parent.exists():
        pytest.skip("there is such a user, or no /run")
    before = own.parent.exists()
    own.mkdir(parents=True)
    try:
        make(own, VICTIM, 0o700)
        assert found_at(VICTIM, HOME="/h") == f"{own}/tf_malleable-tier/tier.sock"
        for uid, mode in ((VICTIM, 0o755), (HOSTILE, 0o700), (0, 0o700)):
            make(own, uid, mode)
            assert found_at(VICTIM, HOME="/h").startswith("/h/.local/state/")
    finally:
        own.rmdir()
        if not before:
            own.parent.rmdir()


@contextmanager
def serving(place: Path, **paths: Path) -> Iterator[tuple[int | None, str]]:
    """Have the victim start a tier; yields its exit code, None if it serves, and what it says."""
    log = place / "log"
    source = make(place / "data", 0)
    settings = TierSettings(
        sources=(source,), store=paths.get("store", place / "mine" / "store"),
        socket=paths.get("socket", place / "mine" / "run" / "tier.sock"),
    )  # fmt: skip
    make(place / "mine", VICTIM)
    with log.open("wb") as said:
        child = os.fork()
        if child == 0:
            try:
                os.dup2(said.fileno(), 2)
                sys.stderr = os.fdopen(2, "w", closefd=False)
                become(VICTIM, VICTIM)
                code = daemon.run(settings)
                sys.stderr.flush()
                os._exit(code)
            finally:
                os._exit(99)

    def ended() -> int | None:
        pid, status = os.waitpid(child, os.WNOHANG)
        return os.waitstatus_to_exitcode(status) if pid else None

    code = None

    def is_settled() -> bool:
        nonlocal code
        code = ended()
        return code is not None or "copies of" in log.read_text()

    wait_for(is_settled)
    try:
        yield code, log.read_text()
    finally:
        if code is None:
            os.kill(child, 9)
            os.waitpid(child, 0)


def test_a_daemon_serves_in_a_folder_of_its_own_users(place):
    with serving(place) as (code, said):
        assert code is None, said
        for path in (place / "mine" / "store", place / "mine" / "run"):
            assert path.stat().st_uid == VICTIM
        assert stat.S_IMODE((place / "mine" / "run").stat().st_mode) == 0o700
        assert not (place / "mine" / "run" / "tier.sock.reader").exists()


@pytest.mark.parametrize("what", ["socket", "store"])
@pytest.mark.parametrize("how", ["theirs", "everybody's", "group's", "link", "below theirs"])
def test_a_daemon_refuses_what_another_user_made(place, what, how):
    folder = place / "planted"
    reason = f"{folder} belongs to user {HOSTILE}, who is neither root nor you"
    if how == "theirs":
        make(folder, HOSTILE, 0o777)
    elif how == "below theirs":
        make(make(folder, HOSTILE, 0o755) / "inner", VICTIM)
    elif how == "link":
        folder.symlink_to(make(place / "keys", VICTIM, 0o700))
        reason = f"{folder} is a symbolic link in a folder that other users may write to"
    else:
        mode = 0o777 if how == "everybody's" else 0o775
        make(folder, VICTIM, mode)
        reason = f"other users may write to {folder} (mode {mode:04o})"
    inner = folder / "inner" if how == "below theirs" else folder
    path = inner / "tier.sock" if what == "socket" else inner
    with serving(place, **{what: path}) as (code, said):
        verb = "listen at" if what == "socket" else "keep copies in"
        assert (code, said) == (1, f"tfm tier: cannot {verb} {path}: {reason}\n")
    assert list(inner.iterdir()) == []
    assert not list((place / "keys").iterdir()) if how == "link" else True


@pytest.mark.parametrize("name", ["tier.sock.state", "tier.sock.jobs", "lock"])
def test_a_daemon_follows_no_link_in_its_folder(place, name):
    """Of a folder that was open to others once."""
    folder = make(place / "mine" / ("store" if name == "lock" else "run"), VICTIM)
    make(place / "mine", VICTIM)
    if name == "tier.sock.jobs":
        kept = make(place / "keys", VICTIM, 0o500)
    else:
        kept = write(place / "profile", MINE, VICTIM, 0o640)
    (folder / name).symlink_to(kept)
    mode = kept.stat().st_mode
    with serving(place) as (code, said):
        assert code == 1
        assert len(said.splitlines()) == 1
        assert said.startswith("tfm tier: cannot "), said
    assert kept.stat().st_mode == mode
    if kept.is_file():
        assert kept.read_bytes() == MINE


def test_another_store_gets_another_state_file(place, program):
    """Who has the old one mapped, and reads from the old store, is told nothing more."""
    folder = make(place / "run", VICTIM)
    stores = [make(place / f"store{number}", VICTIM) for number in range(2)]
    inodes = []
    for store in (stores[0], stores[0], stores[1]):
        with life_sign(folder, store, program.parent, VICTIM):
            inodes.append((folder / "tier.sock.state").stat().st_ino)
        (folder / "tier.sock").unlink()
    assert inodes[0] == inodes[1] != inodes[2]
    assert [each.name for each in folder.iterdir()] == ["tier.sock.state"]


def test_a_tier_that_starts_by_itself_is_where_programs_look(monkeypatch, place):
    """All of it as a user has it who logs in by su: no runtime folder."""
    monkeypatch.setattr(tier_address, "ROOT_TIER_SOCKET", str(place / "none"))
    home = make(place / "mine", VICTIM, 0o700)
    where = found_at(VICTIM, HOME=str(home))
    assert where == f"{home}/.local/state/tf_malleable-tier/{os.uname().nodename}/tier.sock"
    with serving(place, socket=Path(where)) as (code, said):
        assert code is None, said
        variable, printed = joined(VICTIM, HOME=str(home))
        assert variable.startswith(f"socket={where}\ncounts={where}.jobs/"), printed
