# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""An S3 that fails or changes in the middle of an object: no answer mixes two versions."""

from __future__ import annotations

import hashlib
import os
import re
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from tests.support.controllers import wait_for
from tests.support.object_storage import environment, program
from tests.support.tiers import TierNode, end

pytestmark = pytest.mark.slow
SIZE = 40 << 20
HALF = 7 << 20


class FaultyStorage(ThreadingHTTPServer):
    """An S3 server with one object.

    Attributes:
        data: The object.
        after_half: Called in the middle of an answer with all of the object, which ends there.
        go_on: Set while the rest of an answer with all of the object may be sent.
        asked: Method and range of each request.
    """

    def __init__(self):
        super().__init__(("127.0.0.1", 0), _Handler)
        self.data = os.urandom(SIZE)
        self.after_half = None
        self.go_on = threading.Event()
        self.go_on.set()
        self.asked = []


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_HEAD(self):
        self.do_GET()

    def do_GET(self):
        data, asked = self.server.data, self.headers["Range"]
        self.server.asked.append((self.command, asked))
        etag = f'"{hashlib.md5(data).hexdigest()}"'
        if self.headers["If-Match"] not in (None, etag):
            self.send_response(412)
            self.send_header("Content-Length", "0")
            self.end_headers()
            return
        begin, last = re.findall(r"\d+", asked) if asked else (0, len(data) - 1)
        body = data[int(begin) : int(last) + 1]
        self.send_response(206 if asked else 200)
        self.send_header("Content-Length", str(len(body)))
        self.send_header("ETag", etag)
        self.send_header("Last-Modified", "Fri, 02 Jan 2026 03:04:05 GMT")
        self.end_headers()
        if self.command == "HEAD":
            return
        if not asked:
            self.wfile.write(body[:HALF])
            if self.server.after_half is not None:
                self.server.after_half()
                self.close_connection = True
                return
            self.server.go_on.wait()
            body = body[HALF:]
        self.wfile.write(body)

    def log_message(self, *arguments):
        pass


@pytest.fixture
def faulty():
    with FaultyStorage() as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield server
        server.go_on.set()
        server.shutdown()


@pytest.fixture
def node(tmp_path, faulty):
    url = f"http://127.0.0.1:{faulty.server_port}"
    found = TierNode(
        tmp_path / "node", "s3://data", environment=environment(AWS_ENDPOINT_URL_S3=url)
    )
    yield found.start()
    end(found)


def test_an_answer_that_is_cut_off_is_completed(faulty, node, reader):
    faulty.after_half = lambda: None
    assert reader.read("x") == faulty.data
    wait_for(lambda: not node.status()["growing"])
    assert node.status()["copies"] == 0
    # The rest of the version that was begun, and not all of it again.
    (first, whole), (second, rest) = faulty.asked
    assert (first, second, whole) == ("GET", "GET", None)
    begin, last = map(int, rest.removeprefix("bytes=").split("-"))
    assert 0 < begin <= HALF
    assert last == SIZE - 1


def test_no_answer_mixes_two_versions(faulty, node, reader):
    def change():
        faulty.data = os.urandom(SIZE)
        faulty.after_half = None

    faulty.after_half = change
    assert reader.read("x") in ("IncompleteReadError", "ResponseStreamingError")
    assert reader.read("x") == faulty.data
    wait_for(lambda: node.status()["copies"] == 1)
    assert reader.read("x") == faulty.data
    assert node.counted("copy_opens") == 1


def test_the_end_of_a_large_object_does_not_wait_for_its_middle(faulty, node, reader):
    faulty.go_on.clear()
    assert reader.read("x", Range=f"bytes={SIZE - 8}-{SIZE - 1}") == faulty.data[-8:]
    assert reader.read("x", Range="bytes=0-7") == faulty.data[:8]  # From the copy that grows.
    faulty.go_on.set()
    wait_for(lambda: node.status()["copies"] == 1)
    assert reader.read("x") == faulty.data
    whole = [each for each in faulty.asked if each == ("GET", None)]
    assert len(whole) == 1


def test_readers_that_leave_do_not_stop_a_copy(faulty, node):
    faulty.go_on.clear()
    with program(node) as reader:
        reader.send("get_object", Key="x")
        wait_for(lambda: node.counted("growing_bytes") > 0)
    faulty.go_on.set()
    wait_for(lambda: node.status()["copies"] == 1)
