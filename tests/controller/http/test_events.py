# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""The stream of changes over the socket, to readers and to those that stop reading."""

from __future__ import annotations

import json
import socket
import time
from contextlib import suppress

import pytest

from tests.support.controllers import Client, ask, wait_for
from tests.support.crowd import Crowd
from tests.support.deadline import DEADLINE

# So many jobs with the longest command make a line that no socket's buffer holds a few of.
LONG, MANY = ["x" * 4096], 40


@pytest.fixture
def crowd(tmp_path):
    running = Crowd(tmp_path, 4)
    yield running
    running.close()


def readers(crowd):
    return crowd.do(lambda: crowd.service._feed._readers)


@pytest.mark.slow
def test_changes_are_streamed_as_lines_until_the_reader_hangs_up(crowd):
    job = crowd.job("streamed")
    client = Client(crowd.socket)
    client.request("GET", "/v1/events")
    lines = client.getresponse()
    assert lines.headers["Content-Type"] == "application/x-ndjson"
    first = json.loads(lines.readline())
    assert (first["whole"], [each["id"] for each in first["jobs"]]) == (True, [job])
    assert first["info"]["policy"] == "equal"
    assert first["power"]["watts"] is None
    ask(crowd.socket, "POST", f"/v1/jobs/{job}/pause")
    while not any(each["held"] for each in json.loads(lines.readline())["jobs"]):
        pass
    assert readers(crowd) == 1
    client.close()
    lines.close()
    wait_for(lambda: readers(crowd) == 0)


@pytest.mark.slow
def test_who_stops_reading_is_dropped_and_nobody_waits(crowd):
    jobs = [crowd.job(f"long {number}", command=LONG) for number in range(MANY)]
    with socket.socket(socket.AF_UNIX) as deaf:
        deaf.connect(str(crowd.socket))
        deaf.sendall(b"GET /v1/events HTTP/1.1\r\nHost: x\r\n\r\n")
        wait_for(lambda: readers(crowd) == 1)
        end = time.monotonic() + 300
        priority = 0
        while readers(crowd):
            assert time.monotonic() < end, "it was not dropped"
            priority += 1
            for job in jobs:
                status, _ = ask(crowd.socket, "PATCH", f"/v1/jobs/{job}", {"priority": priority})
                assert status == 200
            time.sleep(0.1)
        # It has been cut off, in the middle of a line.
        deaf.settimeout(DEADLINE)
        assert drained(deaf).startswith(b"HTTP/1.1 200")


def drained(connection):
    """Return what is still received until the other side has hung up."""
    received = bytearray()
    with suppress(ConnectionResetError):
        while chunk := connection.recv(1 << 20):
            received += chunk
    return bytes(received)


def test_the_history_since_a_time_has_only_what_ended_later(crowd):
    for name in ("early", "late"):
        crowd.end(crowd.job(name))
        wait_for(lambda: not crowd.do(crowd.service.jobs))
    live = crowd.job("live")
    wait_for(lambda: crowd.do(lambda: crowd.service.status(live).granted))

    def history(query):
        status, found = ask(crowd.socket, "GET", f"/v1/history?{query}")
        assert status == 200
        return found

    everything = history("spans=true")
    early, late = everything["jobs"]
    since = (early["ended"] + late["ended"]) / 2
    found = history(f"spans=true&since={since:.6f}")
    assert [each["name"] for each in found["jobs"]] == ["late"]
    assert found["summary"]["jobs"] == 1
    assert found["spans"]
    assert all(span["end"] > since for span in found["spans"])
    assert {span["job"] for span in found["spans"]} == {late["id"], live}
    assert history(f"since={time.time() + 60:.0f}")["jobs"] == []
    # What cannot be written is in memory only, and filtered as well.
    assert len(crowd.do(lambda: crowd.service.history(10, True, since)).jobs) == 1
    assert ask(crowd.socket, "GET", "/v1/history?since=yesterday")[0] == 400
