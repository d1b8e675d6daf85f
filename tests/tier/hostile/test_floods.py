# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Floods that one user, or one host, sends to stop the tier of all others."""

from __future__ import annotations

import socket
import threading
import time
from contextlib import suppress

import pytest

from tests.support.controllers import wait_for
from tests.support.deadline import DEADLINE
from tests.support.tier_attacks import attack
from tests.support.tier_machine import DATA, READER, TFM, daemon

pytestmark = pytest.mark.hostile("starved", "stopped")

CONNECTIONS, BODY = 60, 4 << 20
MOST_BYTES = 1 << 18


@pytest.mark.serial("a flood takes a CPU")
def test_a_pipe_that_a_reader_keeps_full(machine, shared, public, big):
    shared.status()
    with attack(machine, "pipes", shared.socket, public) as said:
        assert said == "asking"
        for _ in range(10):
            time.sleep(0.5)
            shared.status()
        # Others go on, too.
        shared.read_from_copy(READER, public, big)


@pytest.mark.serial("a flood takes a CPU")
def test_messages_without_end(machine, shared):
    for number in range(1000):
        machine.file(f"{DATA}/many/{number}", b"x" * 1000)
    done = machine.run(0, *TFM, "tier", "warm", "--socket", shared.socket, f"{DATA}/many")
    assert done.returncode == 0, done.stderr
    wait_for(lambda: shared.status()["copies"] == 1000)
    with attack(machine, "messages", shared.socket, DATA) as said:
        assert said == "sending"
        end = time.monotonic() + 15.0
        while time.monotonic() < end:
            assert shared.is_alive()
            time.sleep(0.05)


@pytest.mark.serial("a flood takes a CPU")
def test_connections_of_one_user(machine, public, big):
    with (
        daemon(machine, "--shared", within="ulimit -n 1024") as found,
        attack(machine, "connect", found.socket, "2000") as said,
    ):
        assert said == "connected"
        found.status()
        found.read_from_copy(READER, public, big)


@pytest.mark.serial("it looks at the memory of a process")
def test_a_host_without_the_secret_fills_the_memory(machine):
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    options = ("--listen", f"127.0.0.1:{port}", "--peers", f"127.0.0.1:{port}")
    with daemon(machine, "--shared", *options) as found:
        before = memory_of(found.process.pid)
        hosts = [socket.create_connection(("127.0.0.1", port), 30) for _ in range(CONNECTIONS)]
        senders = [threading.Thread(target=send, args=[host]) for host in hosts]
        for each in senders:
            each.start()
        for each in senders:
            each.join()
        # What the sockets hold is the kernel's.
        taken = memory_of(found.process.pid) - before
        for host in hosts:
            host.close()
        assert taken < CONNECTIONS * MOST_BYTES


def send(host: socket.socket) -> None:
    """Send a request without a signature, all but its end."""
    head = f"POST /v1/records HTTP/1.1\r\nHost: x\r\nContent-Length: {BODY + 1}\r\n\r\n"
    host.settimeout(DEADLINE)
    with suppress(OSError):  # It is not read, or hung up on.
        host.sendall(head.encode())
        host.sendall(bytes(BODY))


def memory_of(pid: int) -> int:
    """Return the resident bytes of a process."""
    with open(f"/proc/{pid}/status") as status:
        return next(int(line.split()[1]) << 10 for line in status if line.startswith("VmRSS"))
