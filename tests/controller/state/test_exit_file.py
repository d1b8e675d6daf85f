# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Exit files are another user's: only what they may be is read, and none holds up a controller."""

from __future__ import annotations

import os
import threading
import time
from pathlib import Path

import pytest

from tests.support.records import live
from tf_malleable.controller.state import exit_file as module
from tf_malleable.controller.state.exit_file import (
    RecordedExit,
    exit_file,
    read_exit,
    recorded_exits,
)
from tf_malleable.linux.output_file import open_output
from tf_malleable.linux.processes.users import user_name
from tf_malleable.model import OperationError

ME = user_name(os.getuid())


@pytest.fixture
def output(tmp_path):
    return tmp_path / "job.log"


def exit_of(output, user=ME, job="1", submitted=0.0):
    return read_exit(output, user, job, submitted)


@pytest.mark.parametrize(
    ("text", "code", "number", "job"),
    [
        ("3\n", 3, None, None),
        ("137 signal 9\n", 137, 9, None),
        ("3 job 1\n", 3, None, "1"),
        ("137 signal 9 job 1\n", 137, 9, "1"),
    ],
)
def test_it_says_how_a_program_ended(output, text, code, number, job):
    exit_file(output).write_text(text)
    found = exit_of(output)
    assert found == RecordedExit(code, number, exit_file(output).stat().st_mtime, job)
    assert found.encode() == text


def test_what_an_earlier_attempt_has_left_is_not_of_the_next_one(output):
    exit_file(output).write_text("4 job 2\n")
    now = time.time()
    assert [*recorded_exits([job(output, "2", submitted=now)])] == ["2"]
    assert [*recorded_exits([job(output, "3", submitted=now)])] == []


@pytest.mark.parametrize(
    "text", ["", "x\n", "1", "1 2\n", "1 signal\n", "-1\n", "1 job\n", "1" * 1000, "١\n"]
)
def test_all_else_says_nothing(output, text):
    exit_file(output).write_text(text)
    assert exit_of(output) is None


def test_files_of_others_links_and_pipes_are_not_read(output, tmp_path):
    exit_file(output).write_text("0\n")
    assert exit_of(output, "somebody-else") is None
    exit_file(output).rename(tmp_path / "other")
    exit_file(output).symlink_to(tmp_path / "other")
    assert exit_of(output) is None
    exit_file(output).unlink()
    os.mkfifo(exit_file(output))
    assert exit_of(output) is None
    with pytest.raises(OperationError, match="is not a regular file of user"):
        open_output(exit_file(output), ME)


def job(output, identity="1", **fields):
    return live(1, **{"id": identity, "uid": os.getuid(), "output": str(output), **fields})


def test_a_file_of_before_the_job_says_nothing_of_it(output):
    exit_file(output).write_text("0\n")
    now = time.time()
    assert [*recorded_exits([job(output, submitted=now)])] == ["1"]
    assert [*recorded_exits([job(output, submitted=now + 60)])] == []


def test_a_user_whose_files_do_not_answer_holds_up_nobody(output, monkeypatch):
    exit_file(output).write_text("0\n")
    answer, read = threading.Event(), module.read_exit

    def hanging(path: Path, *whose: object) -> RecordedExit | None:
        if path.name == "hangs.log":
            answer.wait()
        return read(path, *whose)

    monkeypatch.setattr(module, "read_exit", hanging)
    others = job(output.with_name("hangs.log"), "2", uid=os.getuid() + 1)
    try:
        assert [*recorded_exits([others, job(output)])] == ["1"]
    finally:
        answer.set()


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root to give files away")
def test_root_reads_files_of_the_job_s_user_only(output):
    exit_file(output).write_text("3\n")
    os.chown(exit_file(output), 65534, 65534)
    exit_file(output).chmod(0o600)
    now = time.time()
    assert recorded_exits([job(output, submitted=now, uid=65534)])["1"].code == 3
    assert recorded_exits([job(output, submitted=now)]) == {}
