# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""The store when its process is killed, its disk is full, its file is not its own."""

from __future__ import annotations

import json
import os
import shutil
import sqlite3
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pytest

from tests.support import ROOT, store_writer
from tests.support.deadline import DEADLINE
from tests.support.records import ended, live, span
from tests.support.store_writer import TOGETHER
from tests.support.users import said_as
from tf_malleable.controller.state.store import Store, StoreError, read_history
from tf_malleable.scheduling.records.job_record import Record

NOBODY = 65534


@pytest.fixture
def path(tmp_path):
    return tmp_path / "controller.db"


def start(mode: str, path: Path) -> subprocess.Popen[str]:
    inherited = filter(None, [os.environ.get("PYTHONPATH")])
    return subprocess.Popen(
        [sys.executable, "-m", store_writer.__name__, mode, str(path)],
        env={**os.environ, "PYTHONPATH": os.pathsep.join((str(ROOT), *inherited))},
        stdout=subprocess.PIPE,
        text=True,
    )


def lines(mode: str, path: Path) -> list:
    process = start(mode, path)
    output, _ = process.communicate(timeout=DEADLINE)
    assert process.returncode == 0
    return [json.loads(line) for line in output.splitlines()]


def kept(path: Path) -> list[Record]:
    store = Store(path)
    records = store.load()
    store.close()
    return records


@pytest.mark.slow
def test_killed_at_any_instant_it_holds_what_was_flushed(path):
    numbers, ours = [], []
    serial = 0
    for generation in range(6):
        writer = start("write", path)
        assert writer.stdout is not None
        # The last generations are long enough for the log to be copied meanwhile.
        for _ in range(1 + 120 * generation):
            flushed, number, problem = json.loads(writer.stdout.readline())
            assert problem is None
            numbers.append(number)
        writer.kill()
        for line in writer.stdout:
            if line.endswith("\n"):
                flushed, number, _ = json.loads(line)
                numbers.append(number)
        writer.wait(DEADLINE)
        assert flushed > serial

        store = Store(path)
        found = {record.id: record.serial for record in store.load()}
        # One more may have been flushed than it could tell us of; never a part of it.
        serial = found[TOGETHER[0]]
        assert found == dict.fromkeys(TOGETHER, serial)
        assert serial in (flushed, flushed + 1)
        jobs, spans = store.history(100_000)
        assert len(jobs) == len(spans) == serial
        assert {job.id for job in jobs} >= set(numbers)
        ours.append(store.next_id())
        store.flush()
        store.close()
    assert len({*numbers, *ours}) == len(numbers) + len(ours)


def test_killed_it_goes_on_with_the_next_number(path):
    expected = 1
    for _ in range(3):
        writer = start("write", path)
        assert writer.stdout is not None
        taken = [int(json.loads(writer.stdout.readline())[1]) for _ in range(20)]
        assert taken == list(range(expected, expected + 20))
        writer.kill()
        rest = [json.loads(line)[1] for line in writer.stdout if line.endswith("\n")]
        writer.wait(DEADLINE)
        last = int(rest[-1]) if rest else taken[-1]
        store = Store(path)
        number = int(store.next_id())
        store.close()
        # One more may have been taken than it could tell us of.
        assert number in (last + 1, last + 2)
        expected = number + 1


@pytest.mark.parametrize("damage", ["boot", "stale", "nonsense", "deleted"])
def test_a_number_that_may_be_wrong_is_not_believed(path, damage):
    counter = path.with_name(f"{path.name}-next")
    writer = start("write", path)
    assert writer.stdout is not None
    writer.stdout.readline()
    writer.kill()
    numbers = [int(json.loads(line)[1]) for line in writer.stdout if line.endswith("\n")]
    writer.wait(DEADLINE)
    boot, number, reserved = counter.read_text().split()
    if damage == "boot":
        counter.write_text(f"{boot[::-1]} {number} {reserved}\n")
    elif damage == "stale":
        counter.write_text(f"{boot} {int(number) - 50} {int(reserved) - 50}\n")
    elif damage == "nonsense":
        counter.write_text("\0" * 80)
    else:
        counter.unlink()
    store = Store(path)
    found = int(store.next_id())
    store.close()
    assert found > max([*numbers, int(number) - 1])
    assert found <= int(number) + 100
    assert not counter.exists()


@pytest.mark.slow
def test_a_full_disk_delays_only_what_is_written(path):
    before, full, during, exhausted, after, closed = lines("fill", path)
    assert before is None
    assert full == f"cannot write the state file {path}: disk I/O error"
    assert during == [[300], ["2"]]
    sentence, taken = exhausted
    assert sentence == f"cannot reserve more job ids: {full}"
    problem, number = after
    assert (problem, closed) == (None, None)
    taken.append(number)
    assert taken == [str(number) for number in range(1, len(taken) + 1)]
    assert len(taken) > 50

    store = Store(path)
    assert [(record.id, record.serial) for record in store.load()] == [("1", 300)]
    assert store.setting("policy") == "srpt"
    assert store.next_id() not in taken
    jobs, spans = store.history(9)
    store.close()
    assert [job.id for job in jobs] == ["2"]
    # 120,000 spans came while only 100,000 may be queued: the newest are there.
    assert len(spans) == 100_000
    assert spans[-1].end == 300_400.0
    assert spans[0].begin == 51_000.0


def test_on_a_full_disk_it_does_not_open(path):
    assert lines("open", path) == [f"cannot use the state file {path}: disk I/O error"]


@pytest.mark.serial("it measures time")
def test_while_somebody_else_writes_nothing_is_lost_and_nobody_waits(path):
    store = Store(path)
    other = sqlite3.connect(path, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    store.save(live(1))
    begin = time.monotonic()
    store.flush()
    assert time.monotonic() - begin < 1.8  # For two seconds only the opening would wait.
    assert store.problem == f"cannot write the state file {path}: database is locked"
    assert store.load() == [live(1)]
    other.execute("ROLLBACK")
    other.close()
    store.flush()
    assert store.problem is None
    store.close()
    assert kept(path) == [live(1)]


@pytest.mark.parametrize("suffixes", [["", "-wal", "-shm"], [""], ["-wal"], ["-shm"]])
def test_deleted_while_in_use_it_is_put_back(path, suffixes):
    store = Store(path)
    number = store.next_id()
    store.save(live(1))
    store.end("2", ended(2))
    store.flush()
    for suffix in suffixes:
        os.unlink(f"{path}{suffix}")
    store.save(live(3))
    store.flush()
    assert store.problem is None
    assert path.stat().st_mode & 0o777 == 0o600
    with pytest.raises(StoreError, match="in use by another controller"):
        Store(path)
    assert read_history(path, 9)[0].jobs == [ended(2)]
    store.save(live(4))
    store.close()
    assert os.listdir(path.parent) == [path.name]
    reopened = Store(path)
    assert reopened.load() == [live(1), live(3), live(4)]
    assert reopened.next_id() != number
    reopened.close()


def test_deleted_with_its_directory_it_comes_back_when_it_can(tmp_path):
    path = tmp_path / "state" / "controller.db"
    store = Store(path)
    store.save(live(1))
    store.flush()
    shutil.rmtree(path.parent)
    path.parent.write_text("in the way")
    for serial in (1, 2):
        store.save(live(1, serial=serial))
        store.flush()
        assert store.problem is not None
        assert store.problem.startswith(f"cannot write the state file {path}: ")
    path.parent.unlink()
    store.flush()
    assert store.problem is None
    assert path.parent.stat().st_mode & 0o777 == 0o700
    store.close()
    assert kept(path) == [live(1, serial=2)]


def test_another_file_in_its_place_is_left_alone(path, tmp_path):
    store = Store(path)
    store.save(live(1))
    store.flush()
    own = path.rename(tmp_path / "moved.db")
    path.write_text("somebody else's")
    store.save(live(2))
    store.flush()
    assert store.problem == (
        f"the state file {path} was replaced by another file while in use;"
        " restart the controller to use that one"
    )
    assert path.read_text() == "somebody else's"
    own.rename(path)
    store.flush()
    assert store.problem is None
    store.close()
    assert kept(path) == [live(1), live(2)]


def test_a_second_controller_is_refused(path):
    store = Store(path)
    store.save(live(1))
    with pytest.raises(StoreError) as refused:
        Store(path)
    assert str(refused.value) == f"the state file {path} is in use by another controller"
    # Refusing has let go of no lock of the first.
    with pytest.raises(StoreError):
        Store(path)
    store.close()
    second = Store(path)
    assert second.load() == [live(1)]
    second.close()


def not_sqlite(path: Path) -> str:
    path.write_text("my thesis\n" * 1000)
    return (
        f"cannot use the state file {path}: it is not a tf_malleable state file; choose another one"
        " with --state"
    )


def another_program_s(path: Path) -> str:
    connection = sqlite3.connect(path)
    connection.execute("CREATE TABLE recipes (name TEXT)")
    connection.commit()
    connection.close()
    return (
        f"cannot use the state file {path}: it is not a tf_malleable state file; choose another one"
        " with --state"
    )


def newer(path: Path) -> str:
    Store(path).close()
    connection = sqlite3.connect(path)
    connection.execute("PRAGMA user_version = 9")
    connection.close()
    return (
        f"cannot use the state file {path}: it has version 9, and this tf_malleable reads"
        " versions up to 4; upgrade tf_malleable"
    )


def torn(path: Path) -> str:
    store = Store(path)
    for number in range(1000):
        store.save(live(number))
    store.close()
    os.truncate(path, path.stat().st_size // 2)
    return (
        f"cannot use the state file {path}: database disk image is malformed; to begin without its"
        f" jobs and history, move {path}* to another folder"
    )


def directory(path: Path) -> str:
    path.mkdir()
    return f"cannot use the state file {path}: Is a directory"


def pipe(path: Path) -> str:
    os.mkfifo(path)
    return f"cannot use the state file {path}: {path} is not a regular file"


@pytest.mark.parametrize("make", [not_sqlite, another_program_s, newer, torn, directory, pipe])
def test_what_is_no_state_file_is_refused_and_left_as_it_is(path, make):
    sentence = make(path)
    before = path.read_bytes() if path.is_file() else None
    for _ in range(2):
        with pytest.raises(StoreError) as refused:
            Store(path)
        message = str(refused.value).replace("cannot read", "cannot use")
        assert message == sentence.replace("cannot read", "cannot use")
    if before is not None and make is not torn:
        assert path.read_bytes() == before
    if make is not torn:
        assert os.listdir(path.parent) == [path.name]


@pytest.mark.parametrize("make", [not_sqlite, another_program_s, newer, directory])
def test_what_is_no_state_file_is_not_read_as_history(path, make):
    make(path)
    with pytest.raises(StoreError) as refused:
        read_history(path, 9)
    assert str(path) in str(refused.value)
    assert "\n" not in str(refused.value)


def test_no_history_where_there_is_no_file(path):
    with pytest.raises(StoreError) as refused:
        read_history(path, 9)
    assert str(refused.value) == (f"cannot read the state file {path}: No such file or directory")
    assert not path.exists()


def test_a_file_where_the_directory_should_be(path):
    path.write_text("")
    inside = path / "controller.db"
    with pytest.raises(StoreError) as refused:
        Store(inside)
    assert str(refused.value) == f"cannot use the state file {inside}: {path} is not a folder"


@pytest.fixture
def public():
    """Return a directory that everybody can read and only we can write."""
    directory = Path(tempfile.mkdtemp())
    directory.chmod(0o755)
    yield directory
    shutil.rmtree(directory)


def as_nobody(do) -> str:
    """Return what a function returns, or the error it raises, without our rights."""
    return said_as(NOBODY, do)


def test_without_permission(public):
    path = public / "controller.db"
    if os.geteuid() != 0:
        public.chmod(0o555)
    denied = f"cannot use the state file {path}: Permission denied"
    assert as_nobody(lambda: Store(path)) == denied
    public.chmod(0o755)
    store = Store(path)
    store.end("1", ended(1))
    store.close()
    path.chmod(0)
    assert as_nobody(lambda: Store(path)) == denied
    reading = f"cannot read the state file {path}: unable to open database file"
    assert as_nobody(lambda: read_history(path, 9)) == reading


@pytest.mark.parametrize("running", [True, False])
def test_a_history_that_may_only_be_read_is_read(public, running):
    path = public / "controller.db"
    store = Store(path)
    store.add_span(span(1, 1.0, 2.0))
    store.end("1", ended(1))
    store.flush()
    if not running:
        store.close()
    for file in public.iterdir():
        file.chmod(0o444)
    if os.geteuid() != 0:
        public.chmod(0o555)
    assert as_nobody(lambda: [job.id for job in read_history(path, 9)[0].jobs]) == "['1']"
    public.chmod(0o755)
    store.close()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can act as other users")
@pytest.mark.parametrize("level", ["place", "place/state"])
def test_where_another_user_can_change_the_way_there_is_no_state(level):
    me, other = 4001, 4002
    with tempfile.TemporaryDirectory() as name:
        top = Path(name)
        top.chmod(0o755)
        path = top / "place" / "state" / "controller.db"
        (top / "place").mkdir(mode=0o700)
        os.chown(top / "place", me, me)
        assert said_as(me, lambda: Store(path).close()) == "None"
        before = path.stat()
        folder = top / level
        os.chown(folder, other, other)
        folder.chmod(0o777)
        assert said_as(me, lambda: Store(path)) == (
            f"cannot use the state file {path}: {folder} belongs to user {other}, who is neither"
            " root nor you"
        )
        assert path.stat() == before
