# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""A state file of version 2, whose ended jobs do not say what a replay needs."""

from __future__ import annotations

import json
import os
import sqlite3
from contextlib import closing

import pytest

from tests.support.records import ended, live
from tf_malleable.api.schema.history import History, JobRecord, Span
from tf_malleable.controller.state.history_reader import encoded_history
from tf_malleable.controller.state.schema import APPLICATION, VERSION
from tf_malleable.controller.state.store import Store, read_history
from tf_malleable.model import Rate

# As tf_malleable wrote it when version 2 was the newest.
ENDED = """{"id":"2","name":"train.py","command":["python","train.py"],"user":"somebody",
"submitted":1002.0,"started":1003.0,"ended":2002.0,"outcome":"finished","exit_code":0,
"waiting_seconds":1.0,"service_seconds":999.0,"paused_seconds":0.0,"total_seconds":1000.0,
"core_seconds":1998.0,"cpu_seconds":12.5,"resizes":0,"steps":100.0,"mem":null,"peak_mem":null,
"gpus":[],"output":null}"""
LIVE = """{"id":"1","name":"train.py","command":["python","train.py"],
"process":{"pid":4321,"start":99,"boot":"boot"},"uid":0,"shape":{"min":1,"preferred":2,"max":4},
"priority":3,"weight":1.5,"submitted":1001.0,"entered":1002.0,"since":1003.0,"state":"running",
"started":1002.0,"grant":{"cpus":[0,2],"lent":[3]},"serial":7,"by_hand":null,"held":false,
"cancelled":false,"waiting_seconds":1.0,"run_seconds":1.0,"paused_seconds":0.0,"core_seconds":2.0,
"resizes":0,"container":null,"time_limit":null,"expected":null,"after":[],"array":null,
"at_once":null,"output":null,"cgroup":null,"mem":null,"gpus_wanted":0,"gpus":null}"""
FILE = f"""
PRAGMA journal_mode = WAL;
BEGIN;
CREATE TABLE live (id TEXT PRIMARY KEY, record TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE jobs (id TEXT PRIMARY KEY, ended REAL NOT NULL, record TEXT NOT NULL) WITHOUT ROWID;
CREATE INDEX jobs_by_end ON jobs (ended);
CREATE TABLE spans (
  job TEXT, begin REAL, span TEXT NOT NULL, PRIMARY KEY (job, begin)
) WITHOUT ROWID;
CREATE TABLE speeds (name TEXT PRIMARY KEY, speeds TEXT NOT NULL);
CREATE TABLE settings (key TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE numbers (next INTEGER NOT NULL);
CREATE TABLE run_times (command TEXT PRIMARY KEY, run_time TEXT NOT NULL);
CREATE TABLE set_aside (source TEXT, key TEXT, document, reason TEXT);
INSERT INTO live VALUES ('1', '{LIVE}');
INSERT INTO jobs VALUES ('2', 2002.0, '{ENDED}');
INSERT INTO spans VALUES
  ('2', 1003.0, '{{"job":"2","begin":1003.0,"end":2002.0,"state":"running","cpus":[0,2]}}');
INSERT INTO speeds VALUES ('0:train.py', '[{{"cores":2,"steps_per_second":5.0,"weight":1.0}}]');
INSERT INTO settings VALUES ('policy', 'equal');
INSERT INTO numbers VALUES (3);
PRAGMA application_id = {APPLICATION};
PRAGMA user_version = 2;
COMMIT;
"""
SPAN = Span("2", 1003.0, 2002.0, "running", [0, 2])
NEW = (
    *("min", "preferred", "max", "priority", "weight", "expected", "speeds", "steps_total"),
    *("first_step_seconds", "first_idle_seconds", "last_step_seconds", "idle_seconds"),
    "idle_phases",
)


@pytest.fixture
def path(tmp_path):
    with closing(sqlite3.connect(tmp_path / "controller.db")) as connection:
        connection.executescript(FILE)
    return tmp_path / "controller.db"


def old(job: JobRecord) -> None:
    assert (job.id, job.steps, job.core_seconds) == ("2", 100.0, 1998.0)
    assert [getattr(job, name) for name in NEW] == [None] * len(NEW)


def version(path) -> int:
    with closing(sqlite3.connect(path)) as connection:
        return connection.execute("PRAGMA user_version").fetchone()[0]


def test_it_is_read_without_a_controller_and_stays_as_it_is(path, caplog):
    found, _ = read_history(path, 9)
    old(*found.jobs)
    assert found.spans == [SPAN]
    text = b"".join(encoded_history(path, 9, (), (), 1, lambda record: record))
    assert json.loads(text)["jobs"][0]["idle_phases"] is None
    assert version(path) == 2
    assert os.listdir(path.parent) == [path.name]
    assert not caplog.records


def test_a_controller_goes_on_with_it(path, caplog):
    store = Store(path)
    assert store.load() == [live(1)]
    old(*store.history(9)[0])
    assert store.knowledge.rates("0:train.py") == (Rate(2, 5.0),)
    assert (store.setting("policy"), store.next_id()) == ("equal", "3")
    store.end("1", ended(1))
    store.close()
    assert store.problem is None
    assert version(path) == VERSION
    assert version(path.with_name("controller.db.version-2")) == 2
    assert not caplog.records
    found: History = read_history(path, 9)[0]
    assert found.jobs[0] == ended(1)
    old(found.jobs[1])
    assert found.spans == [SPAN]


def test_jobs_that_end_from_now_on_say_it(path):
    job = ended(1)
    missing = [name for name in NEW if getattr(job, name) is None]
    assert missing == ["expected"]  # Nothing was said.
