# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Four users share a host, and one of them is hostile to the page of another."""

from __future__ import annotations

import http.client
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.support.deadline import DEADLINE
from tests.support.hostile import (
    SECRET,
    VICTIMS,
    Shared,
    as_several_users,
    assert_refused,
    attempts_on,
    running_as,
    shared,
)
from tf_malleable.api.transport.http_server import MOST_UNFINISHED
from tf_malleable.web.application import PASSED_ON
from tf_malleable.web.server import PageOptions, serve

pytestmark = [pytest.mark.slow, as_several_users]

CONNECTIONS = 4 * MOST_UNFINISHED
FALSE = (
    "",
    "Authorization: Bearer x\r\n",
    "Authorization: Bearer \xff\r\n",
    "Sec-WebSocket-Protocol: tfm, bearer.x\r\n",
)
# They tell nothing of the jobs.
PUBLIC = ("/", "/static/main.js")


@dataclass(frozen=True)
class Page:
    """A page of the first victim's.

    Attributes:
        users: The users, their jobs, and their controller.
        pid: Process of the page.
        port: Port of the page.
        token: Token of the page.
    """

    users: Shared
    pid: int
    port: int
    token: str

    def get(self, path: str) -> str:
        """Return what its user is shown."""
        client = http.client.HTTPConnection("127.0.0.1", self.port, timeout=DEADLINE)
        try:
            client.request("GET", path, headers={"Authorization": f"Bearer {self.token}"})
            answer = client.getresponse()
            assert answer.status == 200
            return answer.read().decode()
        finally:
            client.close()


@pytest.fixture
def page(directory, group) -> Iterator[Page]:
    with shared(directory, group) as users, page_of(users, group) as found:
        yield found


@contextmanager
def page_of(users: Shared, group: int) -> Iterator[Page]:
    """Have a page of the first victim's for the length of a with statement."""
    reading, writing = os.pipe()
    options = PageOptions(users.controller.socket, port=0)

    def serve_page() -> None:
        serve(options, lambda address: os.write(writing, address.encode()) and None)

    with running_as(VICTIMS[0], serve_page, group) as pid, os.fdopen(reading) as pipe:
        os.close(writing)
        found = re.search(r":(\d+)/#token=(\S+)", os.read(pipe.fileno(), 4096).decode())
        assert found is not None
        yield Page(users, pid, int(found[1]), found[2])


def request(method: str, path: str, more: str = "", body: str = "") -> bytes:
    head = f"{method} {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n{more}"
    length = f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n" if body else ""
    return f"{head}{length}\r\n{body}".encode("latin-1")


@pytest.mark.hostile("read")
def test_nothing_of_another_s_page_is_read(page):
    for path in (*PUBLIC, "/about", "/stream", "/v1/history", "/v1/policy"):
        for false in FALSE:
            said = page.users.hostile.exchange(page.port, request("GET", path, false))
            status = b"200" if path in PUBLIC else b"403"
            assert said.startswith(b"HTTP/1.1 %b " % status), (path, false, said[:200])
            assert page.token.encode() not in said
            assert SECRET.encode() not in said
    assert page.token not in Path(f"/proc/{page.pid}/cmdline").read_text()


@pytest.mark.hostile("changed")
def test_nothing_is_changed_by_another_s_page(page):
    before, policy = page.users.theirs(), page.get("/v1/policy")
    for method, pattern in PASSED_ON:
        path = pattern.replace(r"{id:\d+}", page.users.jobs[0])
        for false in FALSE:
            said = page.users.hostile.exchange(page.port, request(method, path, false, "{}"))
            assert said.startswith(b"HTTP/1.1 403 "), (method, path, false, said[:200])
    assert page.users.theirs() == before
    assert page.get("/v1/policy") == policy


@pytest.mark.hostile("starved")
@pytest.mark.parametrize(
    "data", [b"", request("GET", "/about")[:-2], request("PUT", "/v1/policy", "", "{}")[:-1]],
    ids=["nothing", "half a head", "half a body"],
)  # fmt: skip
def test_connections_of_another_keep_nobody_out(page, data):
    page.users.hostile.hold(page.port, CONNECTIONS, data)
    assert "user" in page.get("/about")
    assert len(os.listdir(f"/proc/{page.pid}/fd")) < MOST_UNFINISHED + 50


@pytest.mark.hostile("stopped")
def test_another_s_page_is_not_stopped(page):
    assert_refused(page.users.hostile, attempts_on([page.pid]))
    deep = "[" * 50_000
    for data in (
        b"\x00\xff" * 1000,
        b"GET / HTTP/1.1\r\nX: " + b"x" * 100_000 + b"\r\n\r\n",
        request("PUT", "/v1/policy", "", deep),
        request("GET", "/stream", "Upgrade: websocket\r\nSec-WebSocket-Version: x\r\n"),
        request("GET", "/about", "Origin: http://[\r\n"),
        b"POST / HTTP/1.1\r\nHost: 127.0.0.1\r\nTransfer-Encoding: chunked\r\n\r\nffffffffff\r\n",
    ):
        page.users.hostile.exchange(page.port, data)
        assert "user" in page.get("/about")
