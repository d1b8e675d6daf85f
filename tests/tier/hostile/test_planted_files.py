# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""What one user plants below /tmp and /run is not believed by the programs of another."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from tests.support.deadline import DEADLINE
from tests.support.tier_machine import DATA, HOSTILE, READER, SOCKET, TFM

pytestmark = pytest.mark.hostile("changed", "stopped")

FOLDER = f"/tmp/tf_malleable-tier-{READER}"
FALSE_STORE = "/tmp/store"
MINE, THEIRS = b"print('mine')\n", b"print('theirs')\n"
CONTROL = """
import os, socket, sys
head = b"HTTP/1.1 400 Bad Request\\r\\nContent-Type: application/json\\r\\n"
body = b'{"error": "theirs"}'
with socket.socket(socket.AF_UNIX) as server:
    server.bind(sys.argv[1])
    os.chmod(sys.argv[1], 0o666)
    server.listen()
    print("listening", flush=True)
    while True:
        connection, _ = server.accept()
        connection.recv(1 << 16)
        connection.sendall(head + b"Content-Length: %d\\r\\n\\r\\n" % len(body) + body)
        connection.close()
"""
LISTEN = """
import os, socket, sys
with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as server:
    server.bind(sys.argv[1])
    os.chmod(sys.argv[1], 0o666)
    server.listen()
    print("listening", flush=True)
    while True:
        server.accept()
"""


@pytest.fixture
def program(machine):
    """A program of the victim's, of which the hostile user has a copy in a store of his own."""
    path = machine.file(f"{machine.home(READER)}/train.py", MINE, READER, 0o600)
    machine.folder(FALSE_STORE, HOSTILE)
    for area in ("public", f"private/{READER}"):
        machine.file(f"{FALSE_STORE}/{area}{path}", THEIRS, HOSTILE)
    return path


def said(machine, folder: str, socket: str = SOCKET) -> str:
    """Return the text of a file with the settings of readers that leads to the false store."""
    return f"socket={socket}\nstore={FALSE_STORE}\nsource={machine.home(READER)}\n"


@pytest.fixture
def plant(machine):
    """A function that plants a tier's folder with a socket, as the hostile user could."""
    listening = []

    def do(folder: str, uid: int = HOSTILE, mode: int = 0o755) -> None:
        machine.folder(folder, HOSTILE)
        for code, name in ((LISTEN, "tier.sock"), (CONTROL, "tier.sock.control")):
            command = machine.command(HOSTILE, sys.executable, "-c", code, f"{folder}/{name}")
            listening.append(subprocess.Popen(command, stdout=subprocess.PIPE))
            assert listening[-1].stdout.readline() == b"listening\n"
        machine.file(f"{folder}/tier.sock.reader", said(machine, folder).encode(), HOSTILE)
        machine.folder(folder, uid, mode)

    yield do
    for process in listening:
        process.kill()
        process.communicate(timeout=DEADLINE)


def run(machine, program, **environment: str) -> bytes:
    """Run the victim's program as he would, and return what it prints."""
    done = machine.run(
        READER, *TFM, "run", "--tier", "--", "python3", program, environment=environment,
        timeout=DEADLINE,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize("how", ["folder", "link", "everybody's folder", "root's socket"])
def test_code_of_another_user_does_not_run(machine, shared, program, plant, how):
    """His file names root's living socket, so the life sign that the shim looks for is root's."""
    if how == "link":
        plant("/tmp/elsewhere")
        machine.path(FOLDER).symlink_to("/tmp/elsewhere")
    elif how == "everybody's folder":  # The victim made it, with a umask of 0.
        plant(FOLDER, READER, 0o777)
    else:
        plant(FOLDER)
    if how == "root's socket":
        machine.path(f"{FOLDER}/tier.sock").unlink()
        machine.path(f"{FOLDER}/tier.sock").symlink_to(SOCKET)
    assert run(machine, program) == b"mine\n"


@pytest.mark.parametrize("owner", [HOSTILE, READER], ids=["his", "everybody's"])
def test_with_a_runtime_folder_of_another_user(machine, shared, program, plant, owner):
    """As after `su` from the hostile user, which keeps the environment."""
    folder = machine.folder("/run/user", 0)
    machine.folder(f"{folder}/1", owner, 0o777 if owner == READER else 0o755)
    plant(f"{folder}/1/tf_malleable-tier")
    assert run(machine, program, XDG_RUNTIME_DIR=f"{folder}/1") == b"mine\n"


@pytest.mark.parametrize("where", [FOLDER, f"/run/user/{READER}/tf_malleable-tier"])
def test_a_pipe_in_place_of_the_settings_stops_nobody(machine, shared, program, where):
    machine.folder(where, HOSTILE)
    machine.file(f"{where}/tier.sock", b"", HOSTILE)
    os.mkfifo(machine.path(f"{where}/tier.sock.reader"))
    environment = {} if where == FOLDER else {"XDG_RUNTIME_DIR": os.path.dirname(where)}
    try:
        assert run(machine, program, **environment) == b"mine\n"
    except subprocess.TimeoutExpired:
        pytest.fail("the program does not start")


def test_a_link_in_place_of_a_file_shows_nothing(machine, shared, program):
    """The victim's secrets are not what a tier's settings are, and are not printed."""
    machine.folder(FOLDER, HOSTILE)
    machine.file(f"{FOLDER}/tier.sock", b"", HOSTILE)
    secret = machine.file(f"{machine.home(READER)}/secret", b"store=/etc\n", READER, 0o600)
    machine.path(f"{FOLDER}/tier.sock.reader").symlink_to(secret)
    assert run(machine, program) == b"mine\n"


@pytest.mark.parametrize("runtime", ["", "/run/user/1"], ids=["tmp", "XDG_RUNTIME_DIR"])
def test_an_answer_of_another_user_is_not_shown(machine, plant, runtime):
    plant(f"{runtime}/tf_malleable-tier" if runtime else FOLDER)
    environment = {"XDG_RUNTIME_DIR": runtime} if runtime else {}
    done = machine.run(READER, *TFM, "tier", "status", environment=environment)
    assert done.returncode == 1
    assert b"theirs" not in done.stdout + done.stderr


def test_roots_tier_comes_first(machine, shared, public, big):
    machine.folder(FOLDER, HOSTILE)
    machine.file(f"{FOLDER}/tier.sock", b"", HOSTILE)
    shared.read_from_copy(READER, public, big)


SERVE = (*TFM, "tier", "serve", "--source", DATA)


def serve(machine, **environment: str) -> tuple[int | None, bytes]:
    """Start a tier of the victim's own; return its exit code, None for none in time, and words."""
    store = machine.folder("/srv/own-store", READER)
    process = subprocess.Popen(
        machine.command(READER, *SERVE, "--store", store),
        env=machine.environment(READER, **environment),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    )
    assert process.stdout is not None
    try:
        # Either it is ready, or it says why not.
        line = process.stdout.readline()
        if b"copies of" in line:
            return None, line
        return process.wait(DEADLINE), line
    finally:
        process.kill()
        process.communicate(timeout=DEADLINE)


def test_a_tier_does_not_listen_in_another_users_folder(machine):
    machine.folder("/run/user/1/tf_malleable-tier", HOSTILE, 0o777)
    code, said = serve(machine, XDG_RUNTIME_DIR="/run/user/1")
    assert code == 1, said
    assert said.startswith(b"tfm tier: "), said


@pytest.mark.parametrize(
    "name",
    [
        "tier.sock.reader",
        "tier.sock.jobs",
        "tier.sock.state",
        "tier.sock.control",
        "tier.sock",
    ],
)
def test_a_tier_does_not_follow_links(machine, name):
    """His file would be overwritten, and what is closed to others opened."""
    machine.folder(FOLDER, HOSTILE, 0o777)
    if name == "tier.sock.jobs":
        kept = machine.folder(f"{machine.home(READER)}/keys", READER, 0o500)
    else:
        kept = machine.file(f"{machine.home(READER)}/profile", b"mine\n", READER, 0o600)
    machine.path(f"{FOLDER}/{name}").symlink_to(kept)
    mode = machine.path(kept).stat().st_mode
    serve(machine)
    assert machine.path(kept).stat().st_mode == mode
    if machine.path(kept).is_file():
        assert machine.path(kept).read_bytes() == b"mine\n"


def test_a_state_of_another_user_is_none(machine, program):
    """Without root's tier there is no life sign but his own, which the shim does not take."""
    machine.folder(FOLDER, HOSTILE)
    text = said(machine, FOLDER, f"{FOLDER}/tier.sock")
    machine.file(f"{FOLDER}/tier.sock", b"", HOSTILE)
    machine.file(f"{FOLDER}/tier.sock.reader", text.encode(), HOSTILE)
    machine.file(f"{FOLDER}/tier.sock.state", bytes(4096), HOSTILE)
    assert run(machine, program) == b"mine\n"
