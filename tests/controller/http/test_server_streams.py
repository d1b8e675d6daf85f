# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""The server around a service that misbehaves, or of which one must see the inside.

What a real service is not easily brought to do: to fail, to talk without end, and
to say when a stream was let go.
"""

from __future__ import annotations

import asyncio
import http.client
import json
import logging
import os
import socket
import threading
import time
from contextlib import ExitStack, suppress

import pytest

from tests.support.controllers import Client, ask, raw, wait_for
from tests.support.deadline import DEADLINE
from tf_malleable.api.schema.grant_line import GrantLine
from tf_malleable.api.schema.messages import ControllerInfo
from tf_malleable.api.schema.refusal import Refusal
from tf_malleable.controller.clock import TimeUnused
from tf_malleable.controller.http import request_reader
from tf_malleable.controller.http.application import application
from tf_malleable.controller.http.clients import BODIES_OF_AN_OWNER, IDLE_SECONDS, Clients
from tf_malleable.controller.http.server import Server
from tf_malleable.controller.http.unix_socket import UnixListener

LINE = GrantLine(1, "running", list(range(100)), [])
CONNECTIONS = 20


class Scripted:
    """A service that does what a job's id says."""

    def __init__(self) -> None:
        self.open: list[str] = []
        self.peers: list[int] = []
        self.usage = TimeUnused(time.monotonic)

    def info(self) -> ControllerInfo:
        return ControllerInfo(
            version="1", protocol=1, pid=1, started=0.0, policy="", cpus=[], problem=None
        )

    async def meet(self, peer: object) -> None:
        pass

    def status(self, job: str) -> None:
        raise RuntimeError(f"secret of {job}")

    async def watch(self, peer, job, *, splits):
        self.open.append(job)
        self.peers.append(peer.pid)
        try:
            if job == "fails-at-once":
                raise RuntimeError("nothing sent yet")
            yield LINE
            if job == "fails-later":
                raise RuntimeError("a line is out")
            while job == "talks":
                yield LINE
                await asyncio.sleep(0)
            if job == "is-silent":
                await asyncio.Event().wait()
        finally:
            self.open.remove(job)


class Silent:
    """A connection that is only counted."""

    def __init__(self) -> None:
        self.is_open = True

    def hang_up(self) -> None:
        self.is_open = False


class Served:
    """A scripted service behind the real server on a real socket."""

    def __init__(self, path) -> None:
        self.path = path
        self.service = Scripted()
        self._ready = threading.Event()
        self._thread = threading.Thread(target=lambda: asyncio.run(self._serve()))
        self._thread.start()
        assert self._ready.wait(DEADLINE)

    async def _serve(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._stop = asyncio.Event()
        listener = UnixListener(self.path)
        server = await Server.start(application(self.service), listener.socket, CONNECTIONS)
        self._ready.set()
        await self._stop.wait()
        await server.close()
        listener.close()

    def stop(self) -> None:
        self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join(DEADLINE)
        assert not self._thread.is_alive()

    def watch(self, job: str) -> Client:
        client = Client(self.path)
        client.request("GET", f"/v1/jobs/{job}/grants")
        return client


@pytest.fixture
def served(tmp_path):
    running = Served(tmp_path / "run" / "controller.sock")
    yield running
    running.stop()
    assert running.service.open == []


@pytest.mark.serial("it measures time")
@pytest.mark.parametrize("read_first", [False, True])
def test_a_client_that_goes_is_noticed_at_once(served, read_first):
    client = served.watch("is-silent")
    answer = client.getresponse() if read_first else None
    if answer is not None:
        assert answer.readline()
    wait_for(lambda: served.service.open == ["is-silent"])
    if answer is not None:
        answer.close()
    client.close()
    begin = time.monotonic()
    wait_for(lambda: served.service.open == [])
    assert time.monotonic() - begin < 5


def test_a_client_that_goes_on_talking_is_still_noticed_when_it_goes(served):
    client = served.watch("is-silent")
    wait_for(lambda: served.service.open)
    for _ in range(1000):
        client.sock.sendall(b"GET /v1 HTTP/1.1\r\nHost: localhost\r\n\r\n" * 100)
    client.close()
    wait_for(lambda: served.service.open == [])


@pytest.mark.serial("it measures time")
def test_a_client_that_does_not_read_holds_nobody_up(served):
    with ExitStack() as stack:
        slow = [served.watch("talks") for _ in range(5)]
        for client in slow:
            stack.callback(client.close)
        wait_for(lambda: len(served.service.open) == 5)
        reader = served.watch("talks")
        answer = stack.enter_context(reader.getresponse())
        for _ in range(2000):
            assert json.loads(answer.readline())["serial"] == 1
        for _ in range(20):
            begin = time.monotonic()
            assert ask(served.path, "GET", "/v1")[0] == 200
            assert time.monotonic() - begin < 5
    wait_for(lambda: served.service.open == [])


def test_streams_end_when_the_server_does_read_or_not(tmp_path):
    served = Served(tmp_path / "run" / "controller.sock")
    clients = [served.watch(job) for job in ("talks", "is-silent", "talks")]
    wait_for(lambda: len(served.service.open) == 3)
    served.stop()
    assert served.service.open == []
    for client in clients:
        client.close()


def test_a_failure_is_one_sentence_and_a_traceback_in_the_log(served, caplog):
    with caplog.at_level(logging.ERROR):
        status, answer = ask(served.path, "GET", "/v1/jobs/7")
    assert status == 500
    assert answer == {"error": "internal error in the controller; see its log"}
    assert "GET /v1/jobs/7 failed" in caplog.text
    assert "secret of 7" in caplog.text
    assert ask(served.path, "GET", "/v1")[0] == 200


def test_a_stream_that_fails_before_its_first_line(served, caplog):
    with caplog.at_level(logging.ERROR):
        assert ask(served.path, "GET", "/v1/jobs/fails-at-once/grants")[0] == 500
    assert "nothing sent yet" in caplog.text


def test_a_stream_that_fails_is_cut_off_not_ended(served, caplog):
    request = b"GET /v1/jobs/fails-later/grants HTTP/1.1\r\nHost: localhost\r\n\r\n"
    with caplog.at_level(logging.ERROR):
        received = raw(served.path, request)
    assert received.count(b"HTTP/1.1") == 1
    assert b'"running"' in received
    assert not received.endswith(b"0\r\n\r\n")
    assert "a line is out" in caplog.text
    ended = raw(served.path, request.replace(b"fails-later", b"ends"))
    assert ended.endswith(b"0\r\n\r\n")


def test_more_connections_than_allowed_are_turned_away(served):
    with ExitStack() as stack:
        for _ in range(CONNECTIONS):
            client = served.watch("is-silent")
            stack.callback(client.close)
            assert stack.enter_context(client.getresponse()).readline()
        head, _, body = raw(served.path, b"").partition(b"\r\n\r\n")
        assert head.startswith(b"HTTP/1.1 503 ")
        assert json.loads(body)["error"] == "the controller has too many connections"

    def is_free() -> bool:
        # Turned away, a client may find the connection closed before it has asked.
        with suppress(OSError, http.client.HTTPException):
            return ask(served.path, "GET", "/v1")[0] == 200
        return False

    wait_for(is_free)


def test_idle_connections_make_room(served):
    with ExitStack() as stack:
        idle = [Client(served.path) for _ in range(3 * CONNECTIONS)]
        for client in idle:
            client.connect()
            stack.callback(client.close)
            assert ask(served.path, "GET", "/v1")[0] == 200
        assert idle[0].sock.recv(1) == b""
        idle[-1].request("GET", "/v1")
        assert idle[-1].getresponse().status == 200


@pytest.mark.slow
def test_a_body_that_does_not_come_is_not_waited_for(served, monkeypatch):
    monkeypatch.setattr(request_reader, "BODY_SECONDS", 0.2)
    begun = b"POST /v1/jobs HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100\r\n\r\n{"
    assert raw(served.path, begun).startswith(b"HTTP/1.1 408 ")


def test_a_user_has_part_of_the_connections_and_trusted_ones_have_the_rest():
    clients = Clients(80, trusted=["root"])
    users = [f"user {n}" for n in range(9)]
    taken = {user: [Silent() for _ in range(30)] for user in users}
    for user in users:
        for client in taken[user]:
            if clients.admit(client, user, 0.0):
                clients.begin(client)  # So it cannot make room.
    for client in (one for each in taken.values() for one in each):
        clients.end(client, 0.0)
    assert not any(clients.admit(Silent(), "user 8", 0.0) for _ in range(3))
    assert all(clients.admit(Silent(), "root", 0.0) for _ in range(10))
    # Another one of the first user costs that user's oldest.
    assert clients.admit(Silent(), "user 0", 1.0)
    assert [each.is_open for each in taken["user 0"][:2]] == [False, True]
    clients.sweep(IDLE_SECONDS + 1.0)
    assert not any(each.is_open for each in taken["user 1"][:10])


def test_unfinished_bodies_are_few():
    clients = Clients(100)
    with ExitStack() as stack:
        for _ in range(BODIES_OF_AN_OWNER):
            stack.enter_context(clients.reading_body(Silent()))
        with (
            pytest.raises(Refusal, match="too many unfinished"),
            clients.reading_body(Silent()),
        ):
            pass
    with clients.reading_body(Silent()):
        pass


def test_the_caller_is_who_the_kernel_says(served):
    served.watch("ends").getresponse().read()
    assert served.service.peers == [os.getpid()]


def test_half_a_request_and_a_hang_up_leave_nothing(served):
    for data in (
        b"",
        b"G",
        b"POST /v1/jobs HTTP/1.1\r\nHost: localhost\r\nContent-Length: 10\r\n\r\n{",
    ):
        with socket.socket(socket.AF_UNIX) as client:
            client.connect(str(served.path))
            client.sendall(data)
    assert ask(served.path, "GET", "/v1")[0] == 200
