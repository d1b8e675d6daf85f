# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""What each user's ended jobs take of the state file, and whose jobs go when it is too much."""

from __future__ import annotations

import msgspec
import pytest

from tests.support.records import ended, live, span
from tf_malleable.controller.state.schema import MOST_SPANS
from tf_malleable.controller.state.store import Store, read_history


@pytest.fixture
def path(tmp_path):
    return tmp_path / "controller.db"


def job_of(user: str, number: int, **changes: object):
    return msgspec.structs.replace(ended(number), user=user, **changes)


def kept(store: Store) -> list[str]:
    return [job.id for job in store.history(100)[0]]


def test_who_ends_many_jobs_displaces_only_own_ones(path):
    store = Store(path, keep=4)
    for number in (1, 2):
        store.end(str(number), job_of("ada", number))
    for number in range(3, 30):
        store.end(str(number), job_of("mallory", number))
        store.flush()
    assert kept(store) == ["1", "2", "28", "29"]
    store.close()
    # Another controller has counted the same.
    store = Store(path, keep=4)
    store.end("30", job_of("mallory", 30))
    store.flush()
    assert kept(store) == ["1", "2", "29", "30"]
    store.close()


def test_the_history_has_a_size(path):
    size, jobs = 400_000, 200
    store = Store(path, keep_bytes=size)
    store.end("1", job_of("ada", 1))
    for number in range(2, jobs):
        store.add_span(span(number, float(number), number + 1.0))
        store.end(str(number), job_of("mallory", number, command=["x" * 20_000]))
        store.flush()
    assert store.problem is None
    history, _ = read_history(path, jobs)
    assert history.jobs[0].id == "1"
    assert [job.id for job in history.jobs[1:]] == [
        str(number) for number in range(jobs - len(history.jobs) + 1, jobs)
    ]
    assert 5 < len(history.jobs) < 30
    assert {each.job for each in history.spans} <= {job.id for job in history.jobs}
    store.tidy(0.0)
    store.close()
    assert path.stat().st_size < 4 * size


def test_subordinate_uids_have_no_share_of_their_own(path):
    store = Store(path, keep=4)
    for number in (1, 2):
        store.end(str(number), job_of("ada", number))
    for number in range(3, 30):
        store.end(str(number), job_of(str(100_000 + number), number, account="mallory"))
        store.flush()
    assert kept(store) == ["1", "2", "28", "29"]
    store.close()


def test_many_changes_of_a_job_count_and_the_oldest_are_forgotten(path):
    store = Store(path, keep=3)
    store.end("1", job_of("ada", 1))
    store.end("2", job_of("mallory", 2, grants=5000))
    store.end("3", job_of("ada", 3))
    store.end("4", job_of("ada", 4))
    assert kept(store) == ["1", "2", "3", "4"]
    store.flush()
    assert kept(store) == ["1", "3", "4"]
    store.save(live(9))
    for begin in range(2 * MOST_SPANS):
        store.add_span(span(9, float(begin), begin + 1.0))
        if begin % 900 == 0:
            store.flush()
    store.close()
    found, _ = read_history(path, 1)
    spans = [each for each in found.spans if each.job == "9"]
    assert MOST_SPANS <= len(spans) <= MOST_SPANS + 2000
    assert spans[-1] == span(9, 2.0 * MOST_SPANS - 1, 2.0 * MOST_SPANS)
