# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Connections of strangers to the processes of a training, which keep nobody of it out."""

from __future__ import annotations

import secrets
import socket
import threading
import time
from contextlib import ExitStack

import pytest

from tests.support.deadline import DEADLINE
from tests.support.elastic_runs import wait_until
from tf_malleable.elastic.generation import Address
from tf_malleable.elastic.links import messages
from tf_malleable.elastic.links.errors import MeshError
from tf_malleable.elastic.links.listener import Listener
from tf_malleable.elastic.membership.coordinator import Coordinator

SECRET = secrets.token_bytes(32)


@pytest.fixture
def member():
    """The listener of a process that answers each first message with itself."""
    refused = []

    def serve(connection, message):
        with connection:
            messages.send(connection, message, time.monotonic() + DEADLINE)

    listener = Listener("127.0.0.1", 0, SECRET, serve, refused.append)
    yield listener.address, refused
    listener.close()


@pytest.fixture
def coordinator():
    listening = socket.create_server(("127.0.0.1", 0), backlog=128)
    running = Coordinator(listening, SECRET, 4, first_seconds=60)
    over = threading.Event()
    thread = threading.Thread(target=running.serve, args=(over.is_set,))
    thread.start()
    yield Address("127.0.0.1", listening.getsockname()[1]), []
    over.set()
    thread.join()


@pytest.mark.slow
@pytest.mark.parametrize("who", ["member", "coordinator"])
@pytest.mark.parametrize("count", [90, 300])
def test_half_open_connections_keep_no_process_out(request, who, count):
    address, _ = request.getfixturevalue(who)
    with ExitStack() as stack:
        for _ in range(count):
            stack.enter_context(socket.create_connection((address.host, address.port)))
        tcp = Address(address.host, address.port)
        with messages.connect(tcp, SECRET, time.monotonic() + DEADLINE) as connection:
            messages.send(connection, {"kind": "status"}, time.monotonic() + DEADLINE)
            assert messages.receive(connection, time.monotonic() + DEADLINE)["kind"] == "status"


def test_a_message_that_is_nested_too_deeply_is_refused(member):
    address, refused = member
    text = b'{"a":' + b"[" * 100_000 + b"]" * 100_000 + b"}"
    with messages.connect(address, SECRET, time.monotonic() + DEADLINE) as connection:
        connection.sendall(len(text).to_bytes(4, "big") + text)
        with pytest.raises(EOFError):
            messages.receive(connection, time.monotonic() + DEADLINE)
    expected = ["refused a connection from this machine: it sent a malformed message"]
    wait_until(lambda: refused == expected, lambda: str(refused))


def test_so_is_one_that_is_received():
    one, other = socket.socketpair()
    text = b"[" * 100_000
    with one, other:
        threading.Thread(
            target=one.sendall, args=(len(text).to_bytes(4, "big") + text,), daemon=True
        ).start()
        with pytest.raises(MeshError, match="it sent a malformed message"):
            messages.receive(other, time.monotonic() + DEADLINE)
