# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""What a tier is started with: one sentence for each mistake."""

from __future__ import annotations

from pathlib import Path

import pytest

from tf_malleable.tier import settings
from tf_malleable.tier.settings import NodeAddress, TierSettings


def test_addresses():
    assert settings.node_address("10.0.0.1:77", "--peers") == NodeAddress("10.0.0.1", 77)
    assert str(settings.node_address("[fd00::1]:77", "--peers")) == "[fd00::1]:77"
    assert settings.peer_list("a:1, b:2") == ((NodeAddress("a", 1), NodeAddress("b", 2)), None)
    assert settings.peer_list("dns:tier:77") == ((), NodeAddress("tier", 77))
    assert settings.peer_list(None) == ((), None)


@pytest.mark.parametrize("text", ["", "host", ":1", "host:", "host:x", "host:-1", "host:65536"])
def test_no_address(text):
    with pytest.raises(ValueError, match="--peers must"):
        settings.node_address(text, "--peers")


@pytest.mark.parametrize("text", ["0.0.0.0:1", "[::]:1", "node:1"])
def test_listening_anywhere_is_refused(text):
    with pytest.raises(ValueError, match="--listen must be"):
        settings.listening_address(text)


def test_secrets(tmp_path, monkeypatch):
    monkeypatch.delenv(settings.SECRET, raising=False)
    assert settings.read_secret(None) == b""
    file = tmp_path / "secret"
    file.write_text("0123456789abcdef\n")
    file.chmod(0o600)
    assert settings.read_secret(file) == b"0123456789abcdef"
    file.chmod(0o604)
    with pytest.raises(ValueError, match="chmod 600"):
        settings.read_secret(file)
    with pytest.raises(ValueError, match="No such file"):
        settings.read_secret(tmp_path / "none")
    monkeypatch.setenv(settings.SECRET, "short")
    with pytest.raises(ValueError, match="at least 16 bytes, not 5"):
        settings.read_secret(None)


def test_sources(tmp_path):
    data, store = tmp_path / "data", tmp_path / "store"
    (data / "sub").mkdir(parents=True)
    (tmp_path / "link").symlink_to(data)
    assert settings.checked_sources([tmp_path / "link"], store) == (data.resolve(),)
    for paths, problem in [
        ([], "at least once"),
        ([tmp_path / "none"], "not a folder"),
        ([Path("/")], "is everything"),
        ([data, data / "sub"], "inside each other"),
        ([tmp_path], "and the store are inside each other"),
    ]:
        with pytest.raises(ValueError, match=problem):
            settings.checked_sources(paths, store)


@pytest.mark.parametrize(
    ("more", "problem"),
    [
        ({"peers": (NodeAddress("a", 1),)}, "--peers needs --listen"),
        ({"listen": NodeAddress("127.0.0.1", 1)}, "--listen needs a secret"),
        ({"certificate": Path("c")}, "both --certificate and --authority"),
        ({"certificate": Path("c"), "authority": Path("a")}, "is for --listen"),
    ],
)
def test_what_does_not_go_together(more, problem):
    given = TierSettings((Path("/d"),), Path("/s"), Path("/t"), **more)
    with pytest.raises(ValueError, match=problem):
        settings.check_peers(given)
