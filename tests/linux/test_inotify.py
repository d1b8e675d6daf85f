# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Writes are noticed at once, and nothing is done to what is not ours."""

from __future__ import annotations

import os
import threading
import time

import pytest

from tf_malleable.linux.inotify import Writes

LONG = 30.0


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "file"
    path.write_text("1")
    return path


def later(act):
    timer = threading.Timer(0.1, act)
    timer.start()
    return timer


def test_a_write_is_noticed_at_once(file):
    writes = Writes()
    assert writes.watch([file])
    assert not writes.wait(0.01)
    with file.open("r+b", buffering=0) as opened:
        later(lambda: opened.write(b"2"))
        assert writes.wait(LONG)
        assert not writes.wait(0.01)
    writes.close()


def test_another_thread_can_wake_it(file):
    writes = Writes()
    writes.watch([file])
    later(writes.wake)
    assert writes.wait(LONG)


def test_a_file_that_is_gone_is_an_event_and_can_be_watched_again(file):
    writes = Writes()
    writes.watch([file])
    later(file.unlink)
    assert writes.wait(LONG)
    assert not writes.watch([file])
    file.write_text("again")
    assert writes.watch([file])
    later(lambda: file.write_text("2"))
    assert writes.wait(LONG)


def test_nothing_to_watch_is_a_pause(tmp_path):
    writes = Writes()
    assert not writes.watch([tmp_path / "none"])
    begin = time.monotonic()
    assert not writes.wait(0.05)
    assert time.monotonic() - begin >= 0.05


def test_a_number_that_the_program_has_taken_is_left_alone(file):
    writes = Writes()
    writes.watch([file])
    number = writes._descriptor
    assert number is not None
    read, write = os.pipe()
    os.dup2(read, number)
    os.write(write, b"theirs")
    assert not writes.wait(0.01)
    writes.wake()
    writes.close()
    assert os.read(number, 100) == b"theirs"
    for descriptor in {read, write, number}:
        os.close(descriptor)


def test_watching_the_same_again_changes_nothing(file):
    writes = Writes()
    writes.watch([file])
    number = writes._descriptor
    assert writes.watch([file])
    assert writes._descriptor == number
    writes.close()
    assert not writes.wait(0.0)
