# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""The files with the secrets of a user's elastic trainings, where other users are, too."""

from __future__ import annotations

import os
import shutil
import stat
import tempfile
from pathlib import Path

import pytest

from tests.support.users import said_as
from tf_malleable.cli.elastic import training_registry
from tf_malleable.cli.elastic.training_registry import Whereabouts
from tf_malleable.controller.http.unix_socket import UnixListener
from tf_malleable.elastic.generation import Address

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to be several users")
ME, OTHER = 4001, 4002
FOUND = Whereabouts(Address("127.0.0.1", 7), b"secret")


@pytest.fixture
def runtime(monkeypatch):
    """The user's runtime folder, in a sticky folder of root's."""
    place = Path(tempfile.mkdtemp(prefix="tfm-trust-"))
    place.chmod(0o1777)
    found = place / "run"
    found.mkdir(mode=0o700)
    os.chown(found, ME, ME)
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(found))
    yield found
    shutil.rmtree(place)


def written() -> str:
    return str(training_registry.write("t", FOUND))


def read() -> str:
    return str(training_registry.read("t") == FOUND)


def only() -> str:
    return str(training_registry.read(None) == FOUND)


def test_what_a_user_writes_he_reads(runtime):
    path = runtime / "tf_malleable" / "elastic" / "t.json"
    for _ in range(2):
        assert said_as(ME, written) == str(path)
        assert (path.stat().st_uid, stat.S_IMODE(path.stat().st_mode)) == (ME, 0o600)
        assert said_as(ME, read) == said_as(ME, only) == "True"
    assert [each.name for each in path.parent.iterdir()] == ["t.json"]
    said_as(ME, lambda: training_registry.remove("t"))
    assert [*path.parent.iterdir()] == []
    assert said_as(ME, only) == "there is no elastic training of this user here"


def test_a_controller_starts_in_the_folder_that_a_training_has_made(runtime):
    """Also without a umask."""

    def created() -> str:
        os.umask(0)
        written()
        UnixListener(runtime / "tf_malleable" / "controller.sock").close()
        return "started"

    assert said_as(ME, created) == "started"


@pytest.mark.parametrize("level", ["run", "run/tf_malleable", "run/tf_malleable/elastic"])
@pytest.mark.parametrize("how", ["owner", "mode"])
def test_in_a_folder_that_another_user_may_change_nothing_is_written_or_believed(
    runtime, level, how
):
    said_as(ME, written)
    folder = runtime.parent / level
    if how == "owner":
        os.chown(folder, OTHER, OTHER)
        folder.chmod(0o777)
        reason = f"{folder} belongs to user {OTHER}, who is neither root nor you"
    else:
        folder.chmod(0o777)
        reason = f"other users may write to {folder} (mode 0777)"
    path = runtime / "tf_malleable" / "elastic" / "t.json"
    before = path.stat()
    assert said_as(ME, written) == f"cannot write {path}: {reason}"
    assert said_as(ME, read) == f"cannot read {path}: {reason}"
    assert said_as(ME, only) == f"cannot read {path.parent}: {reason}"
    assert said_as(ME, lambda: training_registry.remove("t")) == "None"
    assert path.stat() == before
