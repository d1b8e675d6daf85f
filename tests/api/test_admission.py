# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""The way through the queue, while the controller comes and goes."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tf_malleable.api.schema.grant_line import GrantLine
from tf_malleable.api.schema.job_request import JobRequest
from tf_malleable.api.transport import admission
from tf_malleable.api.transport.admission import Admitted, Notices, Submitted, admit, submit
from tf_malleable.model import ControllerError

WAITING = {"serial": 0, "state": "waiting", "cpus": [], "lent": []}
GRANTED = {"serial": 1, "state": "running", "cpus": [3], "lent": []}
ASLEEP = {"serial": 1, "state": "running", "cpus": [], "lent": [3]}
JOB = Submitted("7", 1, is_caller=True)


class Connection:
    """Has a stream of these lines; an exception among them is raised, None is a silence."""

    path = "/the/socket"

    def __init__(self, *lines: object, answer: object = None) -> None:
        self.lines = iter(lines)
        self.answer = answer
        self.closed = False
        self.sent: list[object] = []
        self.waits: list[float | None] = []

    def ask(self, method: str, path: str, body: object) -> object:
        self.sent.append(body)
        return self.answer

    def stream(self, path: str) -> Connection:
        assert path == "/v1/jobs/7/grants"
        return self

    def next_within(self, seconds: float | None) -> object:
        self.waits.append(seconds)
        line = next(self.lines)
        if isinstance(line, Exception):
            raise line
        return line

    def close(self) -> None:
        self.closed = True


class Refusing(Connection):
    """Refuses a stream with a status."""

    def __init__(self, status: int) -> None:
        super().__init__()
        self.status = status

    def stream(self, path: str) -> Connection:
        raise ControllerError(self.status, "not now")


class Heard(Notices):
    def __init__(self) -> None:
        self.words: list[str] = []

    def submitted(self, job: Submitted) -> None:
        self.words.append(f"submitted {job.id}")

    def waiting(self, job: Submitted) -> None:
        self.words.append("waiting")

    def busy(self, reason: str) -> None:
        self.words.append(f"busy: {reason}")

    def gone(self) -> None:
        self.words.append("gone")


@pytest.fixture(autouse=True)
def pauses(monkeypatch):
    """Return the pauses that were made; none takes any time."""
    made: list[float] = []
    monkeypatch.setattr(admission.time, "sleep", made.append)
    return made


def admitted(*connections: Connection, **options: object) -> Admitted | None:
    rest: Iterator[Connection] = iter(connections)
    return admit(lambda: next(rest), lambda connection: JOB, **options)


def test_the_first_grant_with_cores_ends_the_wait():
    connection = Connection(WAITING, GRANTED)
    found = admitted(connection)
    assert found == Admitted(JOB, GrantLine(1, "running", [3], []), connection, connection)
    assert not connection.closed


def test_lent_cores_are_its_own():
    assert admitted(Connection(ASLEEP)).grant.lent == [3]


def test_a_second_of_silence_is_said_once_and_then_it_waits_for_ever():
    connection, heard = Connection(None, WAITING, GRANTED), Heard()
    admitted(connection, notices=heard)
    assert heard.words == ["submitted 7", "waiting"]
    assert connection.waits == [1.0, None, None]


def test_a_controller_that_dies_is_waited_for(pauses):
    gone = [Connection(OSError("gone")) for _ in range(8)]
    ended, heard = Connection(EOFError()), Heard()
    found = admitted(*gone, ended, Connection(GRANTED), notices=heard)
    assert found.grant.serial == 1
    assert all(each.closed for each in (*gone, ended))
    assert heard.words.count("gone") == 1
    assert len(pauses) == 9
    assert max(pauses) <= 2.0


def test_another_controller_that_does_not_know_the_job_is_asked_again():
    assert admitted(Refusing(404), Connection(GRANTED)) is not None


def test_one_that_is_busy_after_its_restart_is_asked_again(pauses):
    answers = iter([JOB, ControllerError(503, "too many"), ControllerError(500, "oh"), JOB])

    def submit(connection: Connection) -> Submitted:
        answer = next(answers)
        if isinstance(answer, Exception):
            raise answer
        return answer

    connections = [Connection(EOFError()), Connection(), Connection(), Connection(GRANTED)]
    rest, heard = iter(connections), Heard()
    assert admit(lambda: next(rest), submit, notices=heard) is not None
    assert [each.closed for each in connections] == [True, True, True, False]
    assert heard.words == ["submitted 7", "gone", "busy: too many", "submitted 7"]
    assert len(pauses) == 3


def test_one_that_is_too_busy_for_a_stream_is_not_gone():
    heard = Heard()
    assert admitted(Refusing(503), Connection(GRANTED), notices=heard) is not None
    assert heard.words == ["submitted 7", "busy: not now", "submitted 7"]


def test_a_stream_that_is_refused_for_good_ends_it():
    connection = Refusing(403)
    with pytest.raises(ControllerError, match="not now"):
        admitted(connection)
    assert connection.closed


def test_a_line_that_is_not_a_grant_ends_it():
    connection = Connection({"serial": "first"})
    with pytest.raises(ValueError, match="not a grant"):
        admitted(connection)
    assert connection.closed


def test_one_that_never_answered_is_not_waited_for(pauses):
    def unreachable(connection: Connection) -> Submitted:
        raise ConnectionRefusedError("nobody")

    connection = Connection()
    with pytest.raises(ConnectionRefusedError):
        admit(lambda: connection, unreachable)
    assert connection.closed
    assert pauses == []


def test_a_refusal_ends_it_and_closes_the_connection():
    def refuse(connection: Connection) -> Submitted:
        raise ControllerError(409, "no cores")

    connection = Connection()
    with pytest.raises(ControllerError):
        admit(lambda: connection, refuse)
    assert connection.closed


def test_what_has_become_moot_is_waited_for_no_more(pauses):
    connection = Connection(OSError("gone"))
    assert admitted(connection, is_moot=lambda: True) is None
    assert connection.closed
    assert pauses == []


def test_any_grant_may_be_enough():
    frozen = {"serial": 2, "state": "paused", "cpus": [], "lent": []}
    found = admitted(Connection(WAITING, frozen), is_enough=lambda line: line.state != "waiting")
    assert found.grant.state == "paused"


def test_a_submission_says_what_is_asked_for_and_no_more():
    connection = Connection(answer={"id": "7", "pid": 12, "min": 2, "name": "n"})
    assert submit(connection, JobRequest("n", max=3)) == Submitted("7", 2)
    submit(connection, JobRequest("n"), running=True)
    first, second = connection.sent
    asked = {"name": "n", "command": (), "min": 1, "priority": 0, "weight": 1.0}
    assert first == {**asked, "max": 3, "queue": True}
    assert second == {**asked, "running": True}


def test_whether_it_is_the_main_process_is_not_told_by_its_pid():
    answer = {"id": "7", "pid": 1, "min": 2, "is_caller": True}
    assert submit(Connection(answer=answer), JobRequest("n")) == Submitted("7", 2, is_caller=True)


@pytest.mark.parametrize("answer", [None, [], "yes", {}, {"id": 7}, {"id": "7", "min": "1"}])
def test_what_is_no_controller_is_told_from_one(answer):
    with pytest.raises(ConnectionError, match="what answers at /the/socket is not a controller"):
        submit(Connection(answer=answer), JobRequest("n"))
