# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Strangers at the port for other nodes: what they cost before they have shown who they are."""

from __future__ import annotations

import asyncio
import http.client
import re
import socket
import time
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from pathlib import Path

import pytest

from tests.support.controllers import wait_for
from tests.support.deadline import DEADLINE
from tests.support.tiers import SECRET, TierNode, certificate, make_source, nodes
from tf_malleable.tier.metrics import Counters
from tf_malleable.tier.node_messages import RECORDS_PATH, SIGNATURE, RecordsAnswer
from tf_malleable.tier.peers import admission
from tf_malleable.tier.peers.node_server import NodeServer
from tf_malleable.tier.request_signature import Signer

HEAD = b"POST /v1/records HTTP/1.1\r\nHost: x\r\n"
BODY = 16 << 20
DATA = b"a file"
STRANGER = "127.0.0.77"


@pytest.fixture
def node(tmp_path: Path) -> Iterator[TierNode]:
    source = make_source(tmp_path / "source", {"file": DATA})
    with nodes(tmp_path, source, 2) as (a, b):
        a.warm(source)
        b.kill()
        yield a


def connect(node: TierNode, address: str = STRANGER) -> socket.socket:
    host, port = node.address.rsplit(":", 1)
    return socket.create_connection((host, int(port)), 10, (address, 0))


def send(end: socket.socket, data: bytes) -> None:
    with suppress(OSError):  # It hangs up, or reads no more.
        end.settimeout(1.0)
        end.sendall(data)


def memory(node: TierNode) -> int:
    """Return the bytes of memory that a daemon has used at most."""
    found = re.search(r"VmHWM:\s+(\d+) kB", Path(f"/proc/{node.process.pid}/status").read_text())
    assert found
    return int(found[1]) << 10


def signed(target: str, body: bytes) -> dict[str, str]:
    _, signature = Signer(SECRET.encode()).sign("POST", target, body, time.time())
    return {SIGNATURE: signature}


def tell(node: TierNode) -> int:
    """Send a message as a node does; return the status of the answer."""
    host, port = node.address.rsplit(":", 1)
    client = http.client.HTTPConnection(host, int(port), timeout=DEADLINE)
    body = b'{"node": "127.0.0.9:1"}'
    try:
        client.request("POST", RECORDS_PATH, body, signed(RECORDS_PATH, body))
        return client.getresponse().status
    finally:
        client.close()


FLOODS = {
    "bodies": HEAD + b"Content-Length: %d\r\n\r\n" % BODY + bytes(BODY - 1),
    "bodies that are signed wrongly": HEAD
    + b"X-Tier-Signature: 1.0 n b c\r\nContent-Length: %d\r\n\r\n" % BODY
    + bytes(BODY - 1),
    "pieces": HEAD
    + b"Transfer-Encoding: chunked\r\n\r\n"
    + (b"100000\r\n" + bytes(1 << 20) + b"\r\n") * 15,
    "headers": HEAD + b"X-1: " + b"x" * 8000 + b"\r\nX: " * 1000 + b"x" * (8 << 20),
    "requests": (HEAD + b"Content-Length: 0\r\n\r\n") * 100_000,
    "no requests": b"\x16\x03\x01 what is that" * 1000,
    "nothing": b"",
}


@pytest.mark.slow
@pytest.mark.parametrize("name", FLOODS)
def test_what_strangers_send_is_not_kept(node, name):
    before = memory(node)
    with ExitStack() as stack:
        for number in range(60):
            with suppress(OSError):
                end = stack.enter_context(connect(node, f"127.0.0.{100 + number}"))
                send(end, FLOODS[name])
        assert tell(node) == 200
    # By the bounds of peers/admission.py, and as much again for what is measured by chance.
    most = admission.MOST_UNKNOWN * (admission.UNKNOWN_BYTES + (512 << 10))
    assert memory(node) - before < 2 * most
    assert "Traceback" not in node.log.read_text()


@pytest.mark.slow
@pytest.mark.parametrize("data", [b"", b"POST /v1/rec"])
def test_a_stranger_that_holds_connections_keeps_no_node_out(node, data):
    with ExitStack() as stack:
        ends = []
        for _ in range(500):
            ends.append(stack.enter_context(connect(node)))
            send(ends[-1], data)
        assert tell(node) == 200
        # None of them stays.
        for end in ends:
            end.settimeout(DEADLINE)
            with suppress(ConnectionResetError):
                assert end.recv(1) == b""
    wait_for(lambda: tell(node) == 200)


@pytest.mark.slow
def test_handshakes_that_do_not_end(tmp_path):
    both, authority = certificate(tmp_path)
    source = make_source(tmp_path / "source", {"file": DATA})
    tls = ("--certificate", str(both), "--authority", str(authority))
    with nodes(tmp_path, source, 2, *tls) as (a, b), ExitStack() as stack:
        before = memory(a)
        ends = [stack.enter_context(connect(a)) for _ in range(200)]
        for end in ends:
            send(end, b"\x16\x03\x01\x40\x00" + bytes(1000))
        a.warm(source)
        b.warm(source)
        assert b.counted("peer_bytes") == len(DATA)
        for end in ends:
            end.settimeout(DEADLINE)
            with suppress(ConnectionResetError):
                while end.recv(100):  # An alert, or nothing.
                    pass
        assert memory(a) - before < 64 << 20
        assert "Traceback" not in a.log.read_text()


def test_a_node_stays_connected_and_a_stranger_does_not(monkeypatch):
    monkeypatch.setattr(admission, "UNKNOWN_SECONDS", 0.2)

    async def request(reader, writer, head: dict[str, str], body: bytes) -> bytes:
        lines = [f"POST {RECORDS_PATH} HTTP/1.1", "Host: x", f"Content-Length: {len(body)}"]
        lines += [f"{name}: {value}" for name, value in head.items()]
        writer.write("\r\n".join(lines).encode() + b"\r\n\r\n" + body)
        answer = await reader.readuntil(b"\r\n\r\n")
        found = re.search(rb"Content-Length: (\d+)", answer)
        await reader.readexactly(int(found[1]))
        return answer.split(b" ")[1]

    async def run() -> None:
        async def find(key, version):
            return None

        signer = Signer(SECRET.encode())
        server = NodeServer(signer, lambda message: RecordsAnswer("me"), find, Counters())
        port = await server.start("127.0.0.1", 0, None)
        body = b'{"node": "127.0.0.9:1"}'
        known = await asyncio.open_connection("127.0.0.1", port)
        stranger = await asyncio.open_connection("127.0.0.1", port)
        assert await request(*known, signed(RECORDS_PATH, body), body) == b"200"
        assert await request(*stranger, {}, body) == b"401"
        other = await asyncio.open_connection("127.0.0.1", port)
        assert await request(*other, signed(RECORDS_PATH, body), body + b" ") == b"401"
        assert await stranger[0].read() == b""
        # A large one, after the time of a stranger.
        await asyncio.sleep(0.5)
        large = body[:-1] + b', "keep": [' + b'"x", ' * 200_000 + b'"y"]}'
        assert await request(*known, signed(RECORDS_PATH, large), large) == b"200"
        for _, writer in (known, stranger, other):
            writer.close()
        await server.stop()

    asyncio.run(asyncio.wait_for(run(), DEADLINE))
