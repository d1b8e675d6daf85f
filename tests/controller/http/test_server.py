# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""A real controller on a real socket: what it answers, and what it withstands."""

from __future__ import annotations

import gzip
import json
import os
import socket
from typing import Any

import msgspec
import pytest

import tf_malleable
from tests.support.controllers import Client, controller, job, raw, wait_for
from tests.support.deadline import DEADLINE
from tf_malleable.api.schema import messages
from tf_malleable.api.schema.grant_line import GrantLine
from tf_malleable.api.schema.history import History


@pytest.fixture(scope="module")
def running(tmp_path_factory):
    with controller(tmp_path_factory.mktemp("server"), "--policy", "equal") as one:
        yield one


@pytest.fixture(autouse=True)
def still_answers(running):
    """Whatever a test does, the controller is none the worse for it."""
    yield
    assert running.ask("GET", "/v1")[0] == 200
    assert running.process.poll() is None


def answers(data: bytes) -> list[tuple[int, Any]]:
    """Return status and JSON of the answers in what a server sent."""
    found = []
    while data:
        head, _, data = data.partition(b"\r\n\r\n")
        lines = head.decode().split("\r\n")
        fields = dict(line.lower().split(": ", 1) for line in lines[1:])
        length = int(fields["content-length"])
        assert fields["content-type"].startswith("application/json")
        found.append((int(lines[0].split()[1]), json.loads(data[:length])))
        data = data[length:]
    return found


def test_what_it_says_of_itself(running):
    info = msgspec.convert(running.get("/v1"), type=messages.ControllerInfo)
    assert (info.version, info.protocol, info.pid) == (tf_malleable.__version__, 1, running.pid)
    assert [cpu.id for cpu in info.cpus] == sorted(os.sched_getaffinity(0))
    assert info.problem is None


def test_a_job_from_its_first_word_to_its_last(running):
    with job(running.socket) as one:
        status, answer = one.ask("POST", "/v1/jobs", {"name": "whole", "command": ["a", "b"]})
        assert status == 201
        found = msgspec.convert(answer, type=messages.JobStatus)
        assert (found.name, found.command, found.pid) == ("whole", ["a", "b"], one.pid)
        assert one.ask("POST", "/v1/jobs", {"name": "again"})[0] == 200
        path = f"/v1/jobs/{found.id}"
        assert running.get(path)["name"] == "whole"
        assert [job["id"] for job in running.get("/v1/jobs")["jobs"]] == [found.id]
        assert one.ask("POST", f"{path}/progress", {"steps_done": 1}) == (204, None)
        assert running.ask("PUT", f"{path}/cores", {"cores": 1})[1]["by_hand"] == 1
        assert running.ask("PUT", f"{path}/cores", {"cores": None})[1]["by_hand"] is None
        assert running.ask("POST", f"{path}/pause")[1]["held"]
        wait_for(lambda: one.letter() == "T")
        assert not running.ask("POST", f"{path}/resume")[1]["held"]
        wait_for(lambda: one.letter() != "T")
        assert running.ask("POST", f"{path}/cancel")[0] == 200
        wait_for(lambda: running.get("/v1/jobs")["jobs"] == [])
    history = msgspec.convert(running.get("/v1/history?spans=true"), type=History)
    (record,) = [record for record in history.jobs if record.id == found.id]
    assert record.outcome == "cancelled"
    assert any(span.job == found.id for span in history.spans)
    assert running.get("/v1/history")["spans"] == []


def test_only_the_kernel_says_who_is_calling(running):
    with job(running.socket) as one, job(running.socket) as liar:
        path = f"/v1/jobs/{one.submit()}"
        for target, body in (("acknowledgements", {"serial": 0}), ("progress", {"steps_done": 9})):
            status, answer = liar.ask("POST", f"{path}/{target}", body)
            assert status == 403
            assert f"process {liar.pid} is not part of job" in answer["error"]
        status, answer = liar.ask("POST", "/v1/jobs", {"name": "liar", "pid": one.pid})
        assert status == 400
        assert answer["error"].startswith('there is no field "pid"')
        assert running.get(path)["steps_done"] is None


def test_the_policy_is_switched(running):
    before = running.get("/v1/policy")
    assert before["policy"] == "equal"
    other = next(one["name"] for one in before["available"] if one["name"] != "equal")
    assert running.ask("PUT", "/v1/policy", {"policy": other})[1]["policy"] == other
    assert running.get("/v1")["policy"] == other
    assert running.ask("PUT", "/v1/policy", {"policy": "equal"})[0] == 200
    status, answer = running.ask("PUT", "/v1/policy", {"policy": "no-such"})
    assert status == 400
    assert "no-such" in answer["error"]


@pytest.mark.parametrize(
    ("method", "target", "status", "sentence"),
    [
        ("GET", "/v2", 404, "this controller supports /v1, not /v2"),
        ("POST", "/v2/jobs", 404, "this controller supports /v1, not /v2"),
        ("GET", "/v1.41/containers/json", 404, "this controller supports /v1, not /v1.41"),
        ("GET", "/", 404, "there is no /; /v1/openapi.json lists all paths"),
        ("GET", "/v1/", 404, "there is no /v1/; /v1/openapi.json lists all paths"),
        ("GET", "/v1/job", 404, "there is no /v1/job; /v1/openapi.json lists all paths"),
        ("GET", "/v1/jobs/0", 404, "there is no live job '0'"),
        ("GET", "/v1/jobs/0/grants", 404, "there is no live job '0'"),
        ("POST", "/v1/jobs/0/pause", 404, "there is no live job '0'"),
        ("DELETE", "/v1/jobs", 405, "/v1/jobs allows GET and POST, not DELETE"),
        ("POST", "/v1/history", 405, "/v1/history allows GET, not POST"),
        ("HEAD", "/v1", 405, None),
        ("PUT", "/metrics", 405, "/metrics allows GET, not PUT"),
        ("GET", "/v1?verbose=1", 400, "GET /v1 takes no parameters"),
        ("GET", "/v1/history?limit=0", 400, "limit must be an integer from 1 to 100000, not 0"),
        ("GET", "/v1/history?limit=1&limit=2", 400, 'the parameter "limit" is given twice'),
    ],
)
def test_what_is_not_there(running, method, target, status, sentence):
    found, answer = running.ask(method, target)
    assert found == status
    assert answer == (None if sentence is None else {"error": sentence})


def test_what_a_path_allows_is_also_in_the_header(running):
    client = Client(running.socket)
    client.request("DELETE", "/v1/jobs")
    answer = client.getresponse()
    assert answer.headers["Allow"] == "GET, POST"
    client.close()


def test_what_takes_no_body_refuses_one(running):
    for method, target in (
        ("POST", "/v1/jobs/0/pause"),
        ("GET", "/v1"),
        ("GET", "/v1/jobs/0/grants"),
    ):
        status, answer = running.ask(method, target, {"cores": 1})
        assert status == 400
        assert answer["error"].endswith("takes no body")


@pytest.mark.parametrize(
    ("body", "sentence"),
    [
        (b"", ": it is empty"),
        (b"\xff\xfe", ": invalid character (byte 0)"),
        (b'{"name": "\xff"}', "utf-8"),  # The rest depends on msgspec's version.
        (b"cores=1", ": invalid character (byte 0)"),
        (b'{"name": "a"} {}', ": trailing characters (byte 15)"),
        (b"[" * 200_000, ", not " + "[" * 59 + "…"),
        (b'{"name": "a", "min": 99999}', "min must be an integer from 1 to 65536, not 99999"),
        (b'{"name": "a", "min": 65536}', "min must be at most "),
        (b'{"name": "a", "min": 2, "max": 1}', "1 ≤ min ≤ preferred ≤ max"),
    ],
)
def test_a_body_that_is_no_submission(running, body, sentence):
    client = Client(running.socket)
    client.request("POST", "/v1/jobs", body)
    answer = client.getresponse()
    assert answer.status == 400
    assert sentence in json.loads(answer.read())["error"].replace("UTF-8", "utf-8")
    client.close()
    assert running.get("/v1/jobs")["jobs"] == []


def test_a_compressed_body_is_not_unpacked(running):
    client = Client(running.socket)
    body = gzip.compress(b'{"policy": "equal"}')
    client.request("PUT", "/v1/policy", body, {"Content-Encoding": "gzip"})
    assert client.getresponse().status == 400
    client.close()


@pytest.mark.parametrize("size", [256 * 1024 + 1, 30_000_000])
@pytest.mark.parametrize("chunked", [False, True])
def test_an_oversized_body_is_refused(running, size, chunked):
    body = b'{"name": "' + b"x" * size + b'"}'
    client = Client(running.socket)
    chunks = iter([body[at : at + 65536] for at in range(0, len(body), 65536)])
    client.request("POST", "/v1/jobs", chunks if chunked else body, encode_chunked=chunked)
    answer = client.getresponse()
    assert answer.status == 413
    assert json.loads(answer.read()) == {"error": "the body must be at most 256 KiB"}
    client.close()


def test_the_largest_body_is_taken(running):
    client = Client(running.socket)
    for size, status in ((256 * 1024, 200), (256 * 1024 + 1, 413)):
        client.request("PUT", "/v1/policy", '{"policy": "equal"}'.ljust(size))
        answer = client.getresponse()
        assert (answer.status, bool(answer.read())) == (status, True)
    client.close()


@pytest.mark.parametrize(
    "garbage",
    [
        b"\0" * 1000,
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(range(256)),  # TLS
        bytes(range(256)) * 100,
        b"GET\r\n\r\n",
        b"GET /v1 HTTP/9.9\r\n\r\n",
        b"GET /v1 HTTP/1.1\r\nno colon\r\n\r\n",
        b"GET /v1 HTTP/1.1\r\nContent-Length: -1\r\n\r\n",
        b"POST /v1/jobs HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
        b"GET /" + b"a" * 20_000 + b" HTTP/1.1\r\n\r\n",
        b"GET /v1 HTTP/1.1\r\nX: " + b"a" * 20_000 + b"\r\n\r\n",
        b"GET /v1 HTTP/1.1\r\n" + b"".join(b"X%d: 1\r\n" % n for n in range(10_000)) + b"\r\n",
    ],
    ids=lambda garbage: repr(garbage[:20]),
)
def test_bytes_that_are_no_request(running, garbage):
    (answer,) = answers(raw(running.socket, garbage))
    status, problem = answer
    assert status == 400
    assert len(problem["error"].splitlines()) == 1


def test_a_request_that_is_never_finished_holds_nothing_up(running):
    with socket.socket(socket.AF_UNIX) as first, socket.socket(socket.AF_UNIX) as second:
        first.connect(str(running.socket))
        first.sendall(b"POST /v1/jobs HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100\r\n\r\n{")
        second.connect(str(running.socket))
        second.sendall(b"GET /v1 HT")
        assert running.ask("GET", "/v1")[0] == 200


def test_requests_one_after_the_other_on_one_connection(running):
    client = Client(running.socket)
    for target, status in (("/v1", 200), ("/v2", 404), ("/v1/history?x=1", 400), ("/v1/jobs", 200)):
        client.request("GET", target)
        answer = client.getresponse()
        assert answer.status == status
        answer.read()
    client.close()


@pytest.mark.slow
def test_ten_thousand_requests_leave_no_descriptors(running):
    before = 0
    rest = b"/v1/jobs HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n"
    good = b"GET " + rest + b"\r\n"
    bad = b"POST " + rest + b"Content-Length: 2\r\n\r\n{]"
    for count in range(10_000):
        if count == 1000:
            # Not earlier: on a busy machine it may still be connecting to a Docker engine.
            before = running.descriptors()
        received = raw(running.socket, bad if count % 10 == 0 else good)
        assert received.startswith(b"HTTP/1.1 400" if count % 10 == 0 else b"HTTP/1.1 200")
    wait_for(lambda: running.descriptors() <= before)


def test_streams_that_are_left_leave_no_descriptors(running):
    with job(running.socket) as one:
        path = f"/v1/jobs/{one.submit()}/grants"
        before = running.descriptors()
        for count in range(200):
            client = Client(running.socket)
            client.request("GET", path)
            if count % 2:
                with client.getresponse() as answer:
                    assert answer.readline()
            client.close()
        wait_for(lambda: running.descriptors() <= before)


def test_a_stream_tells_of_each_change_and_ends_with_the_job(running):
    with job(running.socket) as one:
        number = one.submit(max=1)
        client = Client(running.socket)
        client.request("GET", f"/v1/jobs/{number}/grants")
        answer = client.getresponse()
        assert answer.headers["Content-Type"] == "application/x-ndjson"
        first = msgspec.json.decode(answer.readline(), type=GrantLine)
        assert (first.state, len(first.cpus)) == ("running", 1)
        running.ask("POST", f"/v1/jobs/{number}/pause")
        second = msgspec.json.decode(answer.readline(), type=GrantLine)
        assert (second.state, second.cpus) == ("paused", [])
        assert second.serial > first.serial
        one.process.kill()
        assert answer.read() == b""
        client.close()


def test_a_stream_for_an_old_client(running):
    with job(running.socket) as one:
        number = one.submit()
        with socket.socket(socket.AF_UNIX) as client:
            client.settimeout(DEADLINE)
            client.connect(str(running.socket))
            client.sendall(f"GET /v1/jobs/{number}/grants HTTP/1.0\r\n\r\n".encode())
            received = b""
            while b"\n" not in received.partition(b"\r\n\r\n")[2]:
                received += client.recv(4096)
            head, _, lines = received.partition(b"\r\n\r\n")
            assert b"chunked" not in head.lower()
            assert json.loads(lines)["state"] == "running"


def test_metrics(running):
    client = Client(running.socket)
    client.request("GET", "/metrics")
    answer = client.getresponse()
    assert answer.headers["Content-Type"].startswith("text/plain; version=")
    assert "tfm_cpus " in answer.read().decode()
    client.close()


def test_a_body_is_taken_as_curl_sends_it(running):
    client = Client(running.socket)
    form = {"Content-Type": "application/x-www-form-urlencoded", "Expect": "100-continue"}
    client.request("PUT", "/v1/policy", '{"policy": "equal"}', form)
    assert client.getresponse().status == 200
    client.close()
