# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Bad rows, copies before a migration, and the retention of spans."""

from __future__ import annotations

import logging
import os
import sqlite3
import stat
from contextlib import closing

import pytest

from tests.support.records import ended, live, run_seconds, span
from tf_malleable.controller.state.schema import VERSION
from tf_malleable.controller.state.store import Store, StoreError, read_history
from tf_malleable.model import Rate
from tf_malleable.scheduling.records.lessons import Startup


@pytest.fixture
def path(tmp_path):
    return tmp_path / "controller.db"


def filled(path) -> None:
    """Write two live jobs, two ended ones with a span each, and what was learned."""
    store = Store(path)
    for number in (1, 2):
        store.save(live(number))
        store.end(str(number + 2), ended(number + 2))
        store.add_span(span(number + 2, 1.0, 2.0))
        store.knowledge.learn_rates(f"job-{number}", [Rate(1, 6.0)])
        store.knowledge.learn_run_seconds(f"command-{number}", 10.0)
        store.knowledge.learn_start(f"job-{number}", 5.0)
        store.next_id()
    store.close()


def execute(path, *statements: str) -> list[tuple]:
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.text_factory = bytes
        return [row for statement in statements for row in connection.execute(statement)]


BAD = {
    "live": "UPDATE live SET record = '{\"id\": 1}' WHERE id = '1'",
    "jobs": "UPDATE jobs SET record = 'not JSON' WHERE id = '3'",
    "spans": "UPDATE spans SET span = x'ff' WHERE job = '3'",
    "speeds": "UPDATE speeds SET speeds = CAST(x'ff' AS TEXT) WHERE name = 'job-1'",
    "run_times": "UPDATE run_times SET run_time = '1,2' WHERE command = 'command-1'",
    "starts": "UPDATE starts SET start = '{\"seconds\": -1}' WHERE name = 'job-1'",
}


@pytest.mark.parametrize("table", BAD)
def test_one_bad_row_is_set_aside_and_the_others_are_used(path, caplog, table):
    filled(path)
    execute(path, BAD[table])
    with caplog.at_level(logging.WARNING):
        store = Store(path)
        jobs, spans = store.history(9)
    assert [record.id for record in store.load()] == (["2"] if table == "live" else ["1", "2"])
    assert [job.id for job in jobs] == (["4"] if table == "jobs" else ["3", "4"])
    expected = {"jobs": ["4"], "spans": ["4"]}
    assert sorted(each.job for each in spans) == expected.get(table, ["3", "4"])
    assert bool(store.knowledge.rates("job-1")) == (table != "speeds")
    assert bool(store.knowledge.rates("job-2"))
    assert (run_seconds(store.knowledge, "command-1") is None) == (table == "run_times")
    assert run_seconds(store.knowledge, "command-2") == 10.0
    assert (store.knowledge.starts.get("job-1") is None) == (table == "starts")
    assert store.knowledge.starts.get("job-2") == Startup(5.0, 1.0)
    warnings = [record.getMessage() for record in caplog.records]
    assert len(warnings) == 1
    assert str(path) in warnings[0]
    assert f"of table {table} is set aside" in warnings[0]
    store.close()
    assert store.problem is None
    assert [row[0] for row in execute(path, "SELECT source FROM set_aside")] == [table.encode()]
    caplog.clear()
    again = Store(path)
    again.history(9)
    again.close()
    assert not caplog.records


@pytest.mark.parametrize("table", ["live", "jobs", "spans"])
def test_a_bad_row_does_not_empty_the_history_that_is_read_without_a_controller(path, table):
    filled(path)
    execute(path, BAD[table])
    found = read_history(path, 9)[0]
    assert "4" in [job.id for job in found.jobs]
    assert "4" in [each.job for each in found.spans]


@pytest.mark.parametrize("damage", ["DELETE FROM numbers", "UPDATE numbers SET next = 'x'"])
def test_a_lost_job_number_is_found_again(path, damage):
    filled(path)
    execute(path, damage)
    store = Store(path)
    assert store.next_id() == "5"  # Jobs 1 to 4 are in the file.
    store.close()
    store = Store(path)
    assert store.next_id() == "6"
    store.close()


def to_version_1(path) -> None:
    execute(path, "DROP TABLE run_times", "DROP TABLE set_aside", "PRAGMA user_version = 1")


def test_a_copy_is_made_before_a_migration(path):
    filled(path)
    to_version_1(path)
    Store(path).close()
    copy = path.with_name("controller.db.version-1")
    assert sorted(os.listdir(path.parent)) == sorted([path.name, copy.name])
    assert stat.S_IMODE(copy.stat().st_mode) == 0o600
    assert execute(copy, "PRAGMA user_version") == [(1,)]
    assert execute(copy, "SELECT id FROM live ORDER BY id") == [(b"1",), (b"2",)]
    assert execute(path, "PRAGMA user_version") == [(VERSION,)]


def test_without_room_for_the_copy_nothing_is_migrated(path):
    filled(path)
    to_version_1(path)
    path.with_name("controller.db.part").mkdir()  # In the way, as a full disk would be.
    with pytest.raises(StoreError, match="cannot use the state file"):
        Store(path)
    assert execute(path, "PRAGMA user_version") == [(1,)]


def test_no_copy_is_made_without_a_migration(path):
    for _ in range(2):
        Store(path).close()
    assert os.listdir(path.parent) == [path.name]


def test_spans_are_deleted_once_they_have_outlived_their_retention(path):
    store = Store(path, keep_spans=100.0)
    for number in range(1, 61):
        store.add_span(span(number, 1.0, 2.0))
        store.end(str(number), ended(number, 1002.0 + number))
    store.save(live(99))
    store.add_span(span(99, 1.0, 2.0))
    store.flush()
    steps = 1
    while store.tidy(1152.5):  # Jobs 1 to 50 ended more than 100 s before.
        steps += 1
    assert steps > 2
    jobs, spans = store.history(100)
    assert len(jobs) == 60
    assert sorted(int(each.job) for each in spans) == [*range(51, 61), 99]
    store.close()
    assert store.problem is None
    store = Store(path, keep_spans=100.0)
    assert not store.tidy(1152.5)
    store.close()


def test_without_a_retention_spans_are_kept(path):
    filled(path)
    store = Store(path)
    assert not store.tidy(1e12)
    assert len(store.history(9)[1]) == 2
    store.close()


@pytest.mark.parametrize("reopened", [False, True])
def test_the_file_shrinks_when_its_spans_are_deleted(path, reopened):
    store = Store(path, keep_spans=100.0)
    for number in range(1, 21):
        for begin in range(4000):
            store.add_span(span(number, float(begin), begin + 1.0))
        store.end(str(number), ended(number, 1000.0))
    store.close()
    before = path.stat().st_size
    assert before > 1000 * 4096
    store = Store(path, keep_spans=100.0)
    while store.tidy(2000.0):
        pass
    if not reopened:
        for _ in range(20):
            store.tidy(2000.0)
    store.close()
    if reopened:
        Store(path).close()
    assert path.stat().st_size < before / 4
