# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Rows of earlier versions, which did not know memory, GPUs and generations, are read as before."""

from __future__ import annotations

import sqlite3
from contextlib import closing

import pytest
from msgspec.structs import replace

from tests.support.records import ended, live
from tf_malleable.controller.state.store import Store
from tf_malleable.scheduling.records.lessons import command_key


@pytest.fixture
def path(tmp_path):
    """A state file as an earlier version has left it."""
    path = tmp_path / "controller.db"
    store = Store(path)
    store.save(live(1))
    store.end("2", ended(2))
    store.knowledge.learn(live(3), (), 4e9, finished=True)
    store.close()
    with closing(sqlite3.connect(path)) as file, file:
        for table, column, fields in (
            ("live", "record", ("mem", "gpus_wanted", "gpus")),
            ("jobs", "record", ("mem", "peak_mem", "gpus", "elastic")),
            ("run_times", "run_time", ("peak_mem",)),
        ):
            where = ", ".join(f"'$.{field}'" for field in fields)
            file.execute(f"UPDATE {table} SET {column} = json_remove({column}, {where})")
    return path


def test_nothing_of_them_is_lost(path, caplog):
    store = Store(path)
    try:
        assert store.load() == [live(1)]
        assert store.history(10)[0] == [replace(ended(2), elastic=None)]
        known = store.knowledge.lessons(live(3))
        assert (known.expected_seconds, known.peak_mem) == (live(3).run_seconds, None)
        assert not caplog.records
        # The memory is learned from the next run on.
        store.knowledge.learn(live(3), (), 4e9, finished=True)
        assert store.knowledge.lessons(live(3)).peak_mem == 4e9
    finally:
        store.close()


def test_memory_is_kept_in_the_file(tmp_path):
    store = Store(tmp_path / "controller.db")
    job = live(1, mem=1 << 30, gpus_wanted=2, gpus=(0, 3))
    store.save(job)
    store.knowledge.learn(job, (), 4e9, finished=True)
    store.close()
    again = Store(tmp_path / "controller.db")
    try:
        assert again.load() == [job]
        key = command_key(job.uid, job.name, job.command)
        known = again.knowledge.run_times.get(key)
        assert known is not None
        assert known.peak_mem == 4e9
    finally:
        again.close()
