# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""States in files: whole, damaged, of another training."""

from __future__ import annotations

import errno
import os
import threading
from pathlib import Path

import pytest

from tests.support.deadline import DEADLINE
from tf_malleable.elastic.links.errors import MeshError
from tf_malleable.elastic.state import checkpoint
from tf_malleable.elastic.state.checkpoint import CutUp, DamagedError
from tf_malleable.elastic.state.checkpoint_writer import CheckpointWriter

CUT_UP = CutUp(4, 7)
BUFFERS = [memoryview(b"weights"), memoryview(b""), memoryview(bytes(range(100)))]


def keep(folder, step, cut_up=CUT_UP):
    return checkpoint.write(folder, step, cut_up, f"at {step}".encode(), BUFFERS)


def names(folder):
    return sorted(path.name for path in folder.iterdir())


def nothing(sentence):
    raise AssertionError(sentence)


def test_what_was_kept_comes_back(tmp_path):
    folder = tmp_path / "not" / "there"
    assert checkpoint.newest(folder, CUT_UP, nothing) is None
    path = keep(folder, 30)
    found = checkpoint.newest(folder, CUT_UP, nothing)
    assert (found.path, found.step, found.description) == (path, 30, b"at 30")
    assert [bytes(each) for each in found.buffers] == [bytes(each) for each in BUFFERS]


def test_the_newest_two_stay_and_what_was_begun_goes(tmp_path):
    (tmp_path / ".step-000000000001.checkpoint.0.partial").write_text("half")
    (tmp_path / "notes.txt").write_text("mine")
    for step in (5, 9, 10, 11):
        keep(tmp_path, step)
    assert names(tmp_path) == [
        "notes.txt",
        "step-000000000010.checkpoint",
        "step-000000000011.checkpoint",
    ]


def test_of_a_file_that_breaks_off_anywhere_nothing_is_used(tmp_path):
    path = keep(tmp_path, 3)
    whole = path.read_bytes()
    for length in range(len(whole)):
        path.write_bytes(whole[:length])
        with pytest.raises(DamagedError):
            checkpoint._read(path, CUT_UP)
    path.write_bytes(whole + b"x")
    with pytest.raises(DamagedError):
        checkpoint._read(path, CUT_UP)


def test_of_a_file_with_a_wrong_bit_nothing_is_used(tmp_path):
    path = keep(tmp_path, 3)
    whole = path.read_bytes()
    for place in range(len(whole)):
        path.write_bytes(whole[:place] + bytes([whole[place] ^ 1]) + whole[place + 1 :])
        with pytest.raises((DamagedError, MeshError)):  # It may say another seed.
            checkpoint._read(path, CUT_UP)


def test_the_one_before_is_used_if_the_newest_is_damaged(tmp_path):
    first, second = keep(tmp_path, 3), keep(tmp_path, 4)
    os.truncate(second, 200)
    said = []
    assert checkpoint.newest(tmp_path, CUT_UP, said.append).step == 3
    assert said == [f"{second} is not used, as it ends after 200 bytes: {first} is tried"]
    assert names(tmp_path) == [first.name, second.with_suffix(".damaged").name]
    first.write_bytes(b"nonsense")
    assert checkpoint.newest(tmp_path, CUT_UP, said.append) is None
    assert said[1:] == [
        f"{first} is not used, as it does not begin as a checkpoint of this version: no other"
        " checkpoint is left"
    ]


@pytest.mark.parametrize(
    ("cut_up", "sentence"),
    [
        (CutUp(8, 7), "is of a training that cuts batches into 4 shards, and this one"),
        (CutUp(4, 8), "is of a training with the seed 7, and this one has 8"),
    ],
)
def test_that_of_another_training_is_refused(tmp_path, cut_up, sentence):
    path = keep(tmp_path, 3)
    with pytest.raises(MeshError, match=sentence) as caught:
        checkpoint.newest(tmp_path, cut_up, nothing)
    assert str(path) in str(caught.value)
    assert path.exists()


def test_a_folder_that_cannot_be_read_is_refused(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(MeshError, match=r"cannot read .*/file: Not a directory"):
        checkpoint.newest(tmp_path / "file", CUT_UP, nothing)


def test_the_seed_is_told_without_reading_all(tmp_path):
    assert checkpoint.seed_in(tmp_path / "none") is None
    keep(tmp_path, 3, CutUp(4, 11))
    newest = keep(tmp_path, 4, CutUp(4, 11))
    assert checkpoint.seed_in(tmp_path) == 11
    newest.write_bytes(b"nonsense")
    assert checkpoint.seed_in(tmp_path) == 11
    keep(tmp_path, 5, CutUp(4, None))
    assert checkpoint.seed_in(tmp_path) is None


class Holder:
    """A state of two numbers; knows whether somebody reads it."""

    def __init__(self, *, marks_epochs=False):
        self.is_end, self.readers, self.value = False, 0, 1
        if marks_epochs:
            self.is_at_epoch_end = lambda: self.is_end
            self.still_buffers = lambda: [memoryview(bytes([self.value] * 2))]

    def describe(self):
        return b"two numbers"

    def buffers(self):
        self.readers += 1
        return [memoryview(bytearray([self.value] * 2))]

    def release(self):
        self.readers -= 1

    def load(self, description, buffers):
        raise NotImplementedError


def full_disk(_):
    raise OSError(errno.ENOSPC, "No space left on device")


def steps(folder):
    return [int(name[5:17]) for name in names(folder)]


def test_states_are_kept_now_and_then_and_after_epochs(tmp_path):
    holder = Holder(marks_epochs=True)
    keeper = CheckpointWriter(tmp_path, 3600.0, CUT_UP, holder, nothing)
    for step in range(3):
        keeper.look(step)
        keeper.wait()
    assert steps(tmp_path) == [0]
    keeper._took, holder.is_end = 360.0, True
    keeper.look(3)  # It would be too much.
    keeper.wait()
    assert steps(tmp_path) == [0]
    keeper._took = 0.0
    keeper.look(4)
    keeper.wait()
    assert steps(tmp_path) == [0, 4]
    holder.is_end, holder.value = False, 2
    assert keeper.keep_last(5) == Path(tmp_path, "step-000000000005.checkpoint")
    assert bytes(keeper.newest().buffers[0]) == b"\2\2"
    assert keeper.keep_last(5).name in names(tmp_path)
    assert holder.readers == 0


def test_on_a_full_disk_one_sentence_is_said_and_what_there_is_stays(tmp_path, monkeypatch):
    said, holder = [], Holder()
    keeper = CheckpointWriter(tmp_path, 1e-9, CUT_UP, holder, said.append)
    for step in range(2):
        keeper.look(step)
        keeper.wait()
    with monkeypatch.context() as patched:
        patched.setattr(os, "fsync", full_disk)
        for step in (2, 3):
            keeper.look(step)
            keeper.wait()
        assert keeper.keep_last(3) is None
    assert said == [
        f"cannot keep the state in {tmp_path}: No space left on device; the training goes on, and"
        " tries again"
    ]
    assert steps(tmp_path) == [0, 1]
    keeper.look(4)
    keeper.wait()
    assert steps(tmp_path) == [1, 4]
    assert holder.readers == 0


class InPlace(Holder):
    """Steps change its bytes where they are."""

    def __init__(self):
        super().__init__()
        self.bytes = bytearray(b"one")

    def buffers(self):
        self.readers += 1
        return [memoryview(self.bytes)]


def test_a_state_that_changes_while_it_is_written_is_kept_as_it_was(tmp_path, monkeypatch):
    holder, write, may_write = InPlace(), checkpoint.write, threading.Event()

    def late(*args):
        may_write.wait(DEADLINE)
        return write(*args)

    monkeypatch.setattr(checkpoint, "write", late)
    keeper = CheckpointWriter(tmp_path, 1e-9, CUT_UP, holder, nothing)
    keeper.look(1)
    assert holder.readers == 0  # Steps go on.
    holder.bytes[:] = b"two"
    keeper.look(2)  # The first one is not written yet.
    may_write.set()
    keeper.wait()
    assert steps(tmp_path) == [1]
    assert bytes(keeper.newest().buffers[0]) == b"one"
