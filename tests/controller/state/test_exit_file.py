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


@pytest.mark.parametrize(("text", "code", "number"), [("3\n", 3, None), ("137 signal 9\n", 137, 9)])
def test_it_says_how_a_program_ended(output, text, code, number):
    exit_file(output).write_text(text)
    found = read_exit(output, ME)
    assert found == RecordedExit(code, number, exit_file(output).stat().st_mtime)
    assert found.encode() == text


@pytest.mark.parametrize("text", ["", "x\n", "1", "1 2\n", "1 signal\n", "-1\n", "1" * 1000, "١\n"])
def test_all_else_says_nothing(output, text):
    exit_file(output).write_text(text)
    assert read_exit(output, ME) is None


def test_files_of_others_links_and_pipes_are_not_read(output, tmp_path):
    exit_file(output).write_text("0\n")
    assert read_exit(output, "somebody-else") is None
    exit_file(output).rename(tmp_path / "other")
    exit_file(output).symlink_to(tmp_path / "other")
    assert read_exit(output, ME) is None
    exit_file(output).unlink()
    os.mkfifo(exit_file(output))
    assert read_exit(output, ME) is None
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

    def hanging(path: Path, user: str) -> RecordedExit | None:
        if path.name == "hangs.log":
            answer.wait()
        return read(path, user)

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
