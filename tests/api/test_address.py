# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Where the controller is looked for, and what is left for a program to find it."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tf_malleable.api.schema.job_names import printable_name, shortened_command
from tf_malleable.api.schema.job_request import JobRequest
from tf_malleable.api.schema.join import JOIN, Join, join_asked_for
from tf_malleable.api.transport import address
from tf_malleable.api.transport.address import (
    SOCKET,
    NoAnswerError,
    default_listening_socket,
    default_socket,
)

CORES = st.none() | st.integers(4, 65536)

requests = st.builds(
    JobRequest,
    name=st.text(min_size=1, max_size=200),
    command=st.lists(st.text(max_size=9), max_size=4).map(tuple),
    min=st.integers(1, 4),
    preferred=st.none() | st.just(4),
    max=CORES,
    priority=st.integers(-1000, 1000),
    weight=st.floats(0, 1000, exclude_min=True),
)
joins = st.builds(Join, socket=st.text(min_size=1), request=requests)


@given(join=joins)
def test_a_program_finds_what_was_left_for_it(join):
    assert Join.decode(join.encode()) == join


def test_what_is_absent_is_the_default_and_what_is_new_is_passed_over():
    text = json.dumps({"socket": "/s", "name": "n", "colour": "red", "max": None})
    assert Join.decode(text) == Join("/s", JobRequest("n"))


def test_fields_are_those_of_a_submission():
    request = JobRequest("n", ("a", "b"), max=3)
    assert request.said() == {
        "name": "n",
        "command": ("a", "b"),
        "min": 1,
        "max": 3,
        "priority": 0,
        "weight": 1.0,
    }


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"socket": ""}, "socket must be a path, not ''"),
        ({"name": ""}, "name must be a string of 1 to 200 characters, not ''"),
        ({"name": 3}, "name must be a string of 1 to 200 characters, not 3"),
        ({"command": (1,)}, "command must be a list of strings"),
        ({"min": 0}, "min must be an integer from 1 to 65536, not 0"),
        ({"min": True}, "min must be an integer from 1 to 65536, not True"),
        ({"max": 1.5}, "max must be an integer from 1 to 65536, not 1.5"),
        ({"preferred": "2"}, "preferred must be an integer from 1 to 65536, not '2'"),
        ({"priority": 1001}, "priority must be an integer from -1000 to 1000, not 1001"),
        ({"weight": 0}, "weight must be a number above 0, at most 1000, not 0"),
        ({"weight": float("nan")}, "weight must be a number above 0, at most 1000, not nan"),
        ({"min": 3, "max": 2}, "a shape must have 1 ≤ min ≤ preferred ≤ max, not min 3"),
        ({"preferred": 3, "max": 2}, "min 1, preferred 3, max 2"),
        ({"min": 3, "preferred": 2}, "min 3, preferred 2, max 2"),
    ],
)
def test_a_field_that_is_wrong_is_named(changes, sentence):
    fields = {"name": "n", **changes}
    socket = fields.pop("socket", "/s")
    with pytest.raises(ValueError, match=r"^[^\n]+$") as caught:
        Join(socket, JobRequest(**fields))
    assert sentence in str(caught.value)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "yes",
        "[]",
        "{",
        "7",
        '{"name": "n"}',
        '{"socket": "/s"}',
        '{"socket": "/s", "name": "n", "min": 0}',
        '{"socket": "/s", "name": "n", "command": 3}',
        "x" * 9999,
    ],
)
def test_garbage_is_refused_in_one_sentence(text):
    with pytest.raises(
        ValueError, match=r"^TF_MALLEABLE_JOIN must be JSON as 'tfm run' writes"
    ) as e:
        Join.decode(text)
    assert "\n" not in str(e.value)
    assert len(str(e.value)) < 300


def test_without_the_variable_nothing_was_asked_for(monkeypatch):
    monkeypatch.delenv(JOIN, raising=False)
    assert join_asked_for() is None
    monkeypatch.setenv(JOIN, Join("/s", JobRequest("n")).encode())
    assert join_asked_for() == Join("/s", JobRequest("n"))


def test_the_socket_is_where_the_user_says_or_in_a_directory_of_the_user_s(monkeypatch):
    monkeypatch.setenv(SOCKET, "/somewhere/else.sock")
    monkeypatch.setenv("XDG_RUNTIME_DIR", "/run/user/5")
    assert default_socket() == Path("/somewhere/else.sock")
    monkeypatch.delenv(SOCKET)
    assert default_socket() == Path("/run/user/5/tf_malleable/controller.sock")
    monkeypatch.delenv("XDG_RUNTIME_DIR")
    monkeypatch.setattr(os, "getuid", lambda: 0)
    assert default_socket() == Path("/run/tf_malleable/controller.sock")
    monkeypatch.setattr(os, "getuid", lambda: 1234)
    monkeypatch.setenv("HOME", "/home/me")
    monkeypatch.delenv("XDG_STATE_HOME", raising=False)
    state = Path("/home/me/.local/state/tf_malleable", os.uname().nodename)
    assert default_socket() == state / "controller.sock"


def test_clients_find_root_s_controller_if_there_is_none_of_their_own(monkeypatch, tmp_path):
    system = tmp_path / "system.sock"
    monkeypatch.setattr(address, "ROOT_SOCKET", str(system))
    monkeypatch.delenv(SOCKET, raising=False)
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    own = tmp_path / "tf_malleable" / "controller.sock"
    assert default_socket() == own
    system.write_text("")
    assert default_socket() == system
    assert default_listening_socket() == own
    own.parent.mkdir()
    own.write_text("")
    assert default_socket() == own
    own.unlink()
    monkeypatch.setenv(SOCKET, "/chosen")
    assert default_socket() == Path("/chosen")


@pytest.mark.parametrize(
    ("error", "problem", "advice"),
    [
        *(
            (kind(), "no controller answers at /s", "; start one with: tfm controller --detach")
            for kind in (FileNotFoundError, NotADirectoryError, ConnectionRefusedError)
        ),
        (
            PermissionError(13, "Permission denied"),
            "cannot reach the controller at /s (Permission denied)",
            "",
        ),
        (TimeoutError("timed out"), "cannot reach the controller at /s (timed out)", ""),
    ],
)
def test_only_where_nobody_listens_a_controller_should_be_started(error, problem, advice):
    told = NoAnswerError(Path("/s"), error)
    assert told.problem == problem
    assert str(told) == f"{problem}{advice}"


@given(command=st.lists(st.text(st.characters(), max_size=3000), max_size=400))
def test_a_command_for_people_is_readable_and_bounded(command):
    shown = shortened_command(command)
    assert len(shown) <= 256
    assert sum(map(len, shown)) <= 4096
    json.dumps(shown, ensure_ascii=False).encode()
    assert [a[:2] for a in shown[:1]] == [
        a[:2].encode(errors="replace").decode() for a in command[:1]
    ]


def test_names_for_people():
    assert printable_name("train.py") == "train.py"
    assert printable_name("\udcff" + "x" * 300) == "?" + "x" * 199
