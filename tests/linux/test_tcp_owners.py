# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Whose an end of a TCP connection is, as the kernel says it."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from tf_malleable.linux.tcp_owners import owner_of

STRANGER = 4104


@pytest.fixture
def listening():
    with socket.create_server(("127.0.0.1", 0)) as found:
        yield found


@pytest.mark.parametrize("family", [socket.AF_INET, socket.AF_INET6])
def test_own_ends(listening, family):
    address = listening.getsockname()
    if family == socket.AF_INET6 and not Path("/proc/net/if_inet6").exists():
        pytest.skip("no IPv6 here")
    with socket.socket(family) as client:
        host = address[0] if family == socket.AF_INET else f"::ffff:{address[0]}"
        client.connect((host, address[1]))
        accepted, end = listening.accept()
        with accepted:
            assert owner_of(end, address) == owner_of(address, end) == os.geteuid()
            assert owner_of(address) == os.geteuid()
            client.close()
            assert owner_of(end, address) is None
    assert owner_of(("127.0.0.1", 1), address) is None


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to be another user")
def test_another_user(listening):
    code = f"""
import os, socket, sys
os.setuid({STRANGER})
with socket.socket() as client:
    client.connect(("127.0.0.1", int(sys.argv[1])))
    print("connected", flush=True)
    sys.stdin.read()
"""
    address = listening.getsockname()
    command = [sys.executable, "-c", code, str(address[1])]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as client:
        accepted, end = listening.accept()
        with accepted:
            assert client.stdout.readline() == b"connected\n"
            assert (owner_of(end, address), owner_of(address, end)) == (STRANGER, os.geteuid())
            client.communicate()
            # Nobody's, not root's, whose number the kernel shows.
            assert owner_of(end, address) is None
