# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Four users share a host, and one of them is hostile to the elastic training of another."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.support.controllers import wait_for
from tests.support.fixtures import directory as directory
from tests.support.hostile import (
    HOSTILE,
    VICTIMS,
    as_several_users,
    assert_refused,
    attempts_on,
    running_as,
)
from tests.support.users import User, said_as
from tf_malleable.cli.elastic import coordinator as command
from tf_malleable.cli.elastic.training_registry import Whereabouts, ask
from tf_malleable.elastic.generation import Address
from tf_malleable.elastic.settings import SECRET as SECRET_VARIABLE
from tf_malleable.model import OperationError

pytestmark = [pytest.mark.slow, as_several_users]

SECRET = "5e" * 32
CONNECTIONS = 300
_SECONDS = 120.0


@dataclass(frozen=True)
class Training:
    """The coordinator of the first victim's training.

    Attributes:
        pid: Process of the coordinator.
        file: File that tells its user's programs where it is.
        found: What the file says.
        hostile: The hostile user.
    """

    pid: int
    file: Path
    found: Whereabouts
    hostile: User

    @property
    def port(self) -> int:
        return self.found.address.port

    def status(self) -> dict[str, object]:
        """Return what its user is told."""
        end = time.monotonic() + _SECONDS
        while True:
            try:
                return ask(self.found, {"kind": "status"})
            except OperationError:  # Both sides have few seconds for an answer.
                assert os.path.exists(f"/proc/{self.pid}/fd")
                assert time.monotonic() < end


@pytest.fixture
def training(directory) -> Iterator[Training]:
    runtime = directory / "runtime"
    runtime.mkdir(mode=0o700)
    os.chown(runtime, VICTIMS[0], VICTIMS[0])
    file = runtime / "tf_malleable" / "elastic" / "t.json"

    def coordinate() -> None:
        os.environ.update({"XDG_RUNTIME_DIR": str(runtime), SECRET_VARIABLE: SECRET})
        os.environ.pop("TF_MALLEABLE_SOCKET", None)
        command.coordinator.main(["--name", "t"], standalone_mode=False)

    with running_as(VICTIMS[0], coordinate) as pid, User(HOSTILE, HOSTILE) as hostile:
        wait_for(file.exists)
        said = json.loads(file.read_text())
        secret = bytes.fromhex(said.pop("secret"))
        yield Training(pid, file, Whereabouts(Address(**said), secret), hostile)


def as_stranger(training: Training, message: dict[str, object]) -> str:
    """Return what the hostile user, who does not have the secret, is answered."""
    guessed = Whereabouts(training.found.address, b"x" * 32)
    return said_as(HOSTILE, lambda: ask(guessed, message))


@pytest.mark.hostile("read")
def test_nothing_of_another_s_training_is_read(training):
    folder = training.file.parent
    assert_refused(
        training.hostile, [("read", training.file), ("list", folder), ("list", folder.parent)]
    )
    assert SECRET not in Path(f"/proc/{training.pid}/cmdline").read_text()
    assert "no coordinator" in as_stranger(training, {"kind": "status"})
    # What it says to whoever connects is a challenge, and nothing else.
    for data in (b"", b'{"kind": "status"}', (20).to_bytes(4, "big") + b'{"kind": "status"}  '):
        said = training.hostile.exchange(training.port, data)
        assert SECRET.encode() not in said
        assert b"phase" not in said


@pytest.mark.hostile("changed")
def test_nothing_is_changed_in_another_s_training(training):
    before = training.status()["wanted"]
    for message in (
        {"kind": "set", "workers": 7},
        {"kind": "join", "role": "worker"},
        {"kind": "leave", "name": "w"},
    ):
        assert "no coordinator" in as_stranger(training, message)
    folder = training.file.parent
    changes = ("write", "change mode", "rename", "remove")
    assert_refused(
        training.hostile,
        [
            *((what, training.file) for what in changes),
            ("create", folder / "other.json"),
            ("create", folder.parent / "new"),
            *((what, folder) for what in ("change mode", "rename", "remove folder")),
        ],
    )
    status = training.status()
    assert status["wanted"] == before
    assert status["processes"] == []


@pytest.mark.hostile("starved")
@pytest.mark.parametrize("data", [b"", b"\x00\x00\x00\x40{"], ids=["nothing", "half a message"])
def test_connections_of_another_keep_nobody_out(training, data):
    training.hostile.hold(training.port, CONNECTIONS, data)
    assert "phase" in training.status()
    assert len(os.listdir(f"/proc/{training.pid}/fd")) < CONNECTIONS // 2


@pytest.mark.hostile("stopped")
def test_another_s_training_is_not_stopped(training):
    assert_refused(training.hostile, attempts_on([training.pid]))
    deep = b'{"a":' + b"[" * 50_000
    for data in (
        b"\xff" * 10_000,
        len(deep).to_bytes(4, "big") + deep,
        (1 << 31).to_bytes(4, "big"),
        b"GET / HTTP/1.1\r\n\r\n",
    ):
        training.hostile.exchange(training.port, data)
        assert "phase" in training.status()
