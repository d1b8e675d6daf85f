# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""The client of the controller: what it understands, and what it does not put up with."""

from __future__ import annotations

import os
import socket
import threading
import time

import pytest

from tests.support.deadline import DEADLINE
from tests.support.jobs import Job
from tf_malleable.api.transport.connection import Connection, connect
from tf_malleable.model import ControllerError

HEAD = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"


@pytest.fixture
def connection(fake):
    connection = Connection(fake.path, timeout=DEADLINE)
    yield connection
    connection.close()


def chunked(*pieces: bytes) -> bytes:
    return b"".join(b"%x\r\n%s\r\n" % (len(piece), piece) for piece in pieces)


def piecewise(*pieces: bytes, pause: float = 0.02, hang: bool = False):
    """Return an answer that comes in these pieces, and then ends or does not go on."""

    def answer(handler):
        for piece in pieces:
            handler.wfile.write(piece)
            handler.wfile.flush()
            time.sleep(pause)
        if hang:
            handler.connection.recv(1)  # Until the client hangs up.
        handler.close_connection = True

    return answer


def test_a_request_and_its_answer(fake, connection):
    answer = connection.request("POST", "/v1/jobs", {"name": "a", "command": ("é",)})
    assert answer == {"id": "7", "pid": os.getpid()}
    assert fake.heard("jobs")[0].body == {"name": "a", "command": ["é"]}


def test_an_empty_answer_is_none(connection):
    assert connection.request("POST", "/v1/jobs/7/progress", {}) is None


def test_requests_share_one_connection(fake, connection):
    for _ in range(3):
        connection.request("POST", "/v1/jobs/7/progress", {})
    assert len(fake.state.connections) == 1


def test_a_stream_is_on_the_connection_of_the_requests_before(fake, connection):
    connection.request("POST", "/v1/jobs", {})
    lines = connection.stream("/v1/jobs/7/grants")
    assert fake.state.opened == 1
    fake.grant({0})
    for _ in range(2):
        connection.request("POST", "/v1/jobs/7/progress", {})
    assert fake.state.opened == 2
    assert next(lines)["cpus"] == [0]


def test_a_stream_on_a_connection_that_was_closed_while_idle(fake, connection):
    connection.request("POST", "/v1/jobs", {})
    fake.break_off()
    lines = connection.stream("/v1/jobs/7/grants")
    fake.grant({0})
    assert next(lines)["cpus"] == [0]


def test_a_connection_that_was_closed_while_idle_is_opened_again(fake, connection):
    connection.request("POST", "/v1/jobs/7/progress", {"steps_done": 1})
    fake.break_off()
    connection.request("POST", "/v1/jobs/7/progress", {"steps_done": 2})
    assert [heard.body["steps_done"] for heard in fake.heard("progress")] == [1, 2]


def test_a_refusal_says_why(fake, connection):
    fake.answer_with("jobs", lambda handler: handler.answer(409, {"error": "no cores are free"}))
    with pytest.raises(ControllerError, match=r"^no cores are free$") as caught:
        connection.request("POST", "/v1/jobs", {})
    assert caught.value.status == 409
    fake.answer_with("jobs", None)
    assert connection.request("POST", "/v1/jobs", {})


def test_what_a_user_has_said_wrong_is_a_value_error(fake, connection):
    fake.answer_with("jobs", lambda handler: handler.answer(400, {"error": "min must be 1"}))
    with pytest.raises(ValueError, match=r"^min must be 1$"):
        connection.ask("POST", "/v1/jobs", {})
    fake.answer_with("jobs", lambda handler: handler.answer(409, {"error": "no cores are free"}))
    with pytest.raises(ControllerError, match="no cores"):
        connection.ask("POST", "/v1/jobs", {})


@pytest.mark.parametrize("body", [None, [], {"error": 3}, {"message": "x"}])
def test_a_refusal_without_a_sentence_has_a_status(fake, connection, body):
    fake.answer_with("jobs", lambda handler: handler.answer(503, body))
    with pytest.raises(ControllerError, match="answers with status 503"):
        connection.request("POST", "/v1/jobs", {})


@pytest.mark.parametrize("name", ["nothing-here", "x" * 300])
def test_where_no_controller_is(tmp_path, name):
    with pytest.raises(OSError, match=r"No such file|too long"):
        Connection(tmp_path / name).request("GET", "/v1")


def test_a_socket_that_was_left_behind(tmp_path):
    path = tmp_path / "stale.sock"
    with socket.socket(socket.AF_UNIX) as left:
        left.bind(str(path))
    with pytest.raises(ConnectionRefusedError):
        Connection(path).request("GET", "/v1")


@pytest.fixture
def crowded(tmp_path):
    """A listening socket whose queue is full."""
    with socket.socket(socket.AF_UNIX) as listening, socket.socket(socket.AF_UNIX) as first:
        listening.bind(str(tmp_path / "socket"))
        listening.listen(0)
        first.connect(str(tmp_path / "socket"))
        yield listening


def test_where_many_connect_one_waits_for_a_place(crowded):
    with socket.socket(socket.AF_UNIX) as late:
        accepting = threading.Timer(0.2, crowded.accept)
        accepting.start()
        connect(late, crowded.getsockname(), 30.0)
        accepting.join()
        assert late.gettimeout() == 30.0


def test_a_place_is_not_waited_for_for_ever(crowded):
    with socket.socket(socket.AF_UNIX) as late, pytest.raises(TimeoutError, match="timed out"):
        connect(late, crowded.getsockname(), 0.1)


@pytest.mark.parametrize(
    "garbage",
    [
        b"",
        b"\x00\xff\x00\r\n\r\n",
        b"SSH-2.0-OpenSSH_9.2\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n{\xff\xfe}}",
        b"HTTP/1.1 200 OK\r\nContent-Length: 99\r\n\r\n{}, and no more",
        b"HTTP/1.1 200 OK\r\n" + b"a: b\r\n" * 500 + b"\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nxyz\r\n{}\r\n0\r\n\r\n",
    ],
)
def test_what_answers_garbage_is_no_controller(fake, connection, garbage):
    fake.answer_with("jobs", garbage)
    with pytest.raises(OSError, match=r"is not a controller|closed connection"):
        connection.request("POST", "/v1/jobs", {})
    fake.answer_with("jobs", None)
    assert connection.request("POST", "/v1/jobs", {})


@pytest.mark.parametrize(
    "answer",
    [
        b'HTTP/1.1 200 OK\r\nContent-Length: 8\r\n\r\n{"a": 1}',
        b'HTTP/1.1 200\r\ncontent-length:8\r\n\r\n{"a": 1}',
        b'HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 8\r\n\r\n{"a": 1}',
        HEAD + chunked(b'{"a"', b": 1}") + b"0\r\n\r\n",
        HEAD + b'8;x=y\r\n{"a": 1}\r\n0\r\nTrailer: 1\r\n\r\n',
    ],
)
@pytest.mark.parametrize("size", [1, 1000])
def test_answers_on_one_connection(fake, connection, answer, size):
    def in_pieces(handler):
        for start in range(0, len(answer), size):
            handler.wfile.write(answer[start : start + size])
            handler.wfile.flush()

    fake.answer_with("jobs", in_pieces)
    for _ in range(3):
        assert connection.request("POST", "/v1/jobs", {}) == {"a": 1}
    assert len(fake.state.connections) == 1


@pytest.mark.parametrize(
    "answer",
    [
        b'HTTP/1.1 200 OK\r\n\r\n{"a": 1}',
        b'HTTP/1.0 200 OK\r\nContent-Length: 8\r\n\r\n{"a": 1}',
        b'HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 8\r\n\r\n{"a": 1}',
    ],
)
def test_the_last_answer_of_a_connection(fake, connection, answer):
    fake.answer_with("jobs", piecewise(answer))
    for count in (1, 2):
        assert connection.request("POST", "/v1/jobs", {}) == {"a": 1}
        assert fake.state.opened == count


def test_an_answer_without_end_is_given_up(fake):
    def endless(handler):
        handler.wfile.write(HEAD)
        while True:
            handler.wfile.write(chunked(b" " * 65536))

    fake.answer_with("jobs", endless)
    connection = Connection(fake.path, largest=1 << 20)
    with pytest.raises(OSError, match="more than 1048576 bytes"):
        connection.request("POST", "/v1/jobs", {})
    connection.close()


def test_a_controller_that_is_silent_is_given_up(fake):
    fake.answer_with("jobs", piecewise(hang=True))
    connection = Connection(fake.path, timeout=0.2)
    with pytest.raises(TimeoutError):
        connection.request("POST", "/v1/jobs", {})
    connection.close()


def test_lines_come_one_by_one(fake, connection):
    lines = connection.stream("/v1/jobs/7/grants")
    assert lines.next_within(0.05) is None
    fake.grant({0})
    assert lines.next_within(5)["cpus"] == [0]
    assert lines.next_within(0) is None
    fake.send(b'{"a": 1}\n{"a": 2}\n{"a"')
    fake.send(b": 3}\n")
    assert [next(lines)["a"] for _ in range(3)] == [1, 2, 3]


@pytest.mark.parametrize("size", [1, 2, 3, 7, 1000])
def test_lines_in_pieces_of_any_size(fake, connection, size):
    text = HEAD + chunked(b'{"a": 1}\n{"a": 2', b'}\n{"b', b'": 3}\n') + b"0\r\n\r\n"
    pieces = [text[i : i + size] for i in range(0, len(text), size)]
    fake.answer_with("grants", piecewise(*pieces, pause=0.001))
    assert list(connection.stream("/v1/jobs/7/grants")) == [{"a": 1}, {"a": 2}, {"b": 3}]


def test_lines_that_are_not_chunked(fake, connection):
    text = b'HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n{"a": 1}\n{"a": 2}\n'
    fake.answer_with("grants", piecewise(text[:50], text[50:]))
    assert list(connection.stream("/v1/jobs/7/grants")) == [{"a": 1}, {"a": 2}]


def test_a_stream_that_breaks_off_is_no_end(fake, connection):
    lines = connection.stream("/v1/jobs/7/grants")
    fake.grant({0})
    next(lines)
    fake.break_off()
    with pytest.raises(ConnectionResetError):
        next(lines)


@pytest.mark.parametrize(
    "garbage",
    [
        chunked(b"hello\n"),
        chunked(b"[1]\n"),
        chunked(b"\n"),
        chunked(b'{"a": \xff}\n'),
        b"hello\n",
        b"-5\r\n",
        b"5 5\r\n",
        b"f" * 5000,
        chunked(b"x" * (1 << 20), b"x"),
        chunked(b'{"a": "' + b"x" * (1 << 20) + b'"}\n'),
    ],
)
def test_garbage_lines(fake, connection, garbage):
    fake.answer_with("grants", piecewise(HEAD + garbage, hang=True))
    with pytest.raises(ConnectionError):
        next(connection.stream("/v1/jobs/7/grants"))


def test_a_stream_that_is_refused(fake, connection):
    fake.answer_with("grants", lambda handler: handler.answer(404, {"error": "no job 7"}))
    with pytest.raises(ControllerError, match="no job 7"):
        connection.stream("/v1/jobs/7/grants")


def test_another_thread_can_end_streams_and_no_more(fake, connection):
    lines = connection.stream("/v1/jobs/7/grants")
    caught: list[BaseException] = []

    def wait():
        try:
            next(lines)
        except OSError as error:
            caught.append(error)

    thread = threading.Thread(target=wait)
    thread.start()
    connection.end_streams()
    thread.join(30)
    assert len(caught) == 1
    assert connection.request("POST", "/v1/jobs", {})


@pytest.mark.serial("it measures time")
def test_a_limit_holds_for_the_connection_that_is_open(fake, connection):
    connection.request("POST", "/v1/jobs/7/progress", {})
    connection.limit(0.2)
    fake.answer_with("progress", piecewise(hang=True))
    begin = time.monotonic()
    with pytest.raises(TimeoutError):
        connection.request("POST", "/v1/jobs/7/progress", {})
    assert time.monotonic() - begin < 2.0


@pytest.mark.parametrize("kind", ["jobs", "grants"])
def test_another_thread_can_call_a_waiting_one_off(fake, kind):
    connection = Connection(fake.path, timeout=DEADLINE)
    caught: list[BaseException] = []

    def wait():
        try:
            if kind == "jobs":
                connection.request("POST", "/v1/jobs", {})
            else:
                next(connection.stream("/v1/jobs/7/grants"))
        except OSError as error:
            caught.append(error)

    fake.answer_with("jobs", piecewise(hang=True))
    thread = threading.Thread(target=wait)
    thread.start()
    fake.wait(lambda: fake.heard("jobs") or fake.state.streams)
    connection.abort()
    thread.join(30)
    assert not thread.is_alive()
    assert len(caught) == 1
    with pytest.raises(OSError, match=r".+"):
        connection.request("POST", "/v1/jobs", {})
    connection.close()


def test_no_sigpipe_for_a_program_that_would_die_of_it(fake):
    program = (
        "import signal, sys\n"
        "from tf_malleable.api.transport.connection import Connection\n"
        "signal.signal(signal.SIGPIPE, signal.SIG_DFL)\n"
        "c = Connection(sys.argv[1])\n"
        "for line in sys.stdin:\n"
        "    print(c.request('POST', '/v1/jobs', {})['id'], flush=True)\n"
    )
    with Job(program, None, str(fake.path)) as job:
        assert job.ask() == "7"
        fake.break_off()
        assert job.ask() == "7"
        assert job.end() == (0, "", "")
