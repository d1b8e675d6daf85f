# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""A history that is read in a thread is the one that the store tells."""

from __future__ import annotations

import gc
import itertools
import sqlite3
from contextlib import closing
from typing import Any

import msgspec
import pytest

from tests.support.records import ended
from tf_malleable.api.schema.history import History, JobRecord, Span
from tf_malleable.controller.state.history_reader import encoded_history
from tf_malleable.controller.state.store import Store, read_history

COUNT = 1000


def encoded(*arguments: Any) -> bytes:
    return b"".join(encoded_history(*arguments))


@pytest.fixture
def path(tmp_path):
    store = Store(tmp_path / "controller.db")
    for number in range(COUNT):
        job = str(number)
        # They ended in another order than that of their arrival.
        times = {"submitted": float(COUNT - number), "ended": 5000.0 + number}
        store.end(job, msgspec.structs.replace(ended(number), **times))
        store.add_span(Span(job, 1.0 + number, 2.0 + number, "running", [0]))
    store.close()
    return store.path


@pytest.mark.parametrize("limit", [1, 200, 201, COUNT, 5 * COUNT])
def test_it_is_the_same(path, limit):
    expected, _ = read_history(path, limit)
    text = encoded(path, limit, (), (), 1, lambda record: record)
    found = msgspec.json.decode(text, type=History)
    assert (found.jobs, found.spans) == (expected.jobs, expected.spans)


def test_it_comes_in_pieces_that_take_no_time_to_send(path):
    sizes = [len(piece) for piece in encoded_history(path, COUNT, (), (), 1, lambda record: record)]
    assert len(sizes) > 3
    assert max(sizes) < 200_000


def test_without_spans_or_jobs(tmp_path, path):
    text = encoded(path, 3, (), None, 1, lambda record: record)
    assert msgspec.json.decode(text, type=History).spans == []
    Store(tmp_path / "empty.db").close()
    text = encoded(tmp_path / "empty.db", 3, (), (), 1, lambda record: record)
    assert msgspec.json.decode(text, type=History).jobs == []


def test_records_are_as_the_caller_may_see_them(path):
    def shown(record):
        return msgspec.structs.replace(record, command=["hidden"])

    text = encoded(path, 7, (), None, 1, shown)
    jobs = msgspec.json.decode(text, type=History).jobs
    assert [job.command for job in jobs] == [["hidden"]] * 7


def test_a_bad_row_costs_only_itself(path):
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("UPDATE jobs SET record = 'not JSON' WHERE id = '3'")
        connection.execute("UPDATE spans SET span = 'not JSON' WHERE job = '4'")
    text = encoded(path, COUNT, (), (), 1, lambda record: record)
    found = msgspec.json.decode(text, type=History)
    jobs = {job.id for job in found.jobs}
    assert {str(number) for number in range(COUNT)} - jobs == {"3"}
    assert jobs - {span.job for span in found.spans} == {"4"}


@pytest.fixture
def only_new_objects():
    """Let gc look only at what a test makes, as TensorFlow's objects are millions."""
    gc.collect()
    gc.freeze()
    yield
    gc.unfreeze()


@pytest.mark.usefixtures("only_new_objects")
def test_few_rows_are_kept_at_a_time(path):
    """A collection of garbage stops everybody for as long as it takes to look at all of them."""
    seen, kept = itertools.count(1), []

    def shown(record):
        if next(seen) % 50 == 0:
            kept.append(sum(isinstance(each, JobRecord) for each in gc.get_objects()))
        return record

    encoded(path, COUNT, (), (), 1, shown)
    assert len(kept) == COUNT // 50
    assert 0 < max(kept) < COUNT / 2
