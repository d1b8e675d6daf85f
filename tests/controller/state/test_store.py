# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""What the store is told it knows, at once and when opened again."""

from __future__ import annotations

import os
import sqlite3
import stat
import threading
from contextlib import closing
from pathlib import Path

import pytest
from msgspec.structs import replace

from tests.support.records import WAITING, ended, live, run_seconds, span
from tf_malleable.controller.state.store import CPUS, Store, default_state, read_history
from tf_malleable.model import Rate
from tf_malleable.scheduling.records.lessons import Startup


@pytest.fixture
def path(tmp_path):
    return tmp_path / "state" / "controller.db"


@pytest.fixture
def store(path):
    store = Store(path)
    yield store
    store.close()


def again(store: Store, **options) -> Store:
    """Close a store and open its file anew."""
    store.close()
    assert store.problem is None
    return Store(store.path, **options)


def test_live_jobs_come_back_as_they_were(store):
    records = [live(2, by_hand=3, held=True, cancelled=True), live(1), WAITING]
    for record in records:
        store.save(record)
    later = live(2, serial=8, by_hand=None)
    store.save(later)
    expected = [WAITING, later]  # Job 1 was saved twice; in order of arrival.
    assert store.load() == expected
    reopened = again(store)
    assert reopened.load() == expected
    reopened.close()


def test_jobs_that_arrive_together_are_loaded_in_order_of_their_numbers(store):
    for number in (11, 9, 10):
        store.save(live(number, submitted=5.0))
    assert [record.id for record in store.load()] == ["9", "10", "11"]


def test_an_ended_job_is_history(store):
    store.save(live(1))
    store.flush()
    store.end("1", ended(1))
    assert store.load() == []
    assert store.history(10) == ([ended(1)], [])
    reopened = again(store)
    assert (reopened.load(), reopened.history(10)) == ([], ([ended(1)], []))
    reopened.close()


@pytest.mark.parametrize("flushed", [False, True])
def test_what_becomes_known_of_an_ended_job_is_known_at_once(store, flushed):
    first = replace(ended(1), outcome="unknown", exit_code=None)
    store.end("1", first)
    if flushed:
        store.flush()
    store.amend_ended(replace(first, outcome="finished", exit_code=0))
    assert store.outcome("1") == "finished"
    (job,), _ = store.history(1)
    assert (job.outcome, job.exit_code) == ("finished", 0)


def test_a_job_that_ends_before_it_was_written_leaves_no_live_job(store):
    store.save(live(1))
    store.end("1", ended(1))
    reopened = again(store)
    assert reopened.load() == []
    assert reopened.history(10)[0] == [ended(1)]
    reopened.close()


@pytest.mark.parametrize("flushed", [True, False])
def test_history_is_of_those_that_ended_last_in_order_of_arrival(store, flushed):
    # Job 1 arrives first and ends last.
    for number, end in ((1, 3000.0), (2, 2500.0), (3, 2600.0)):
        store.end(str(number), ended(number, end))
    if flushed:
        store.flush()
    assert [job.id for job in store.history(1)[0]] == ["1"]
    assert [job.id for job in store.history(2)[0]] == ["1", "3"]
    assert [job.id for job in store.history(9)[0]] == ["1", "2", "3"]


@pytest.mark.parametrize("flushed", [True, False])
def test_spans_are_those_of_the_jobs_shown_and_of_live_ones(store, flushed):
    store.save(live(3))
    for number in (1, 2, 3):
        store.add_span(span(number, 10.0 * number, 10.0 * number + 5))
    store.add_span(span(2, 15.0, 16.0))
    store.end("1", ended(1))
    store.end("2", ended(2))
    if flushed:
        store.flush()
    newest = [span(2, 15.0, 16.0), span(2, 20.0, 25.0), span(3, 30.0, 35.0)]
    assert store.history(1) == ([ended(2)], newest)
    assert store.history(1, spans=False) == ([ended(2)], [])
    assert store.history(2)[1] == [span(1, 10.0, 15.0), *newest]


def test_a_span_without_length_is_not_kept(store):
    store.save(live(1))
    store.add_span(span(1, 5.0, 5.0))
    store.add_span(span(1, 5.0, 4.0))
    store.add_span(span(1, 5.0, 6.0))
    assert store.history(1)[1] == [span(1, 5.0, 6.0)]


def test_old_history_is_forgotten_with_its_spans(path):
    store = Store(path, keep=3)
    for number in range(1, 8):
        store.add_span(span(number, float(number), number + 1.0))
        store.end(str(number), ended(number))
        store.flush()
    store = again(store, keep=3)
    jobs, spans = store.history(100)
    assert [job.id for job in jobs] == ["5", "6", "7"]
    assert [each.job for each in spans] == ["5", "6", "7"]
    # The file was opened with a history; what comes now still counts with it.
    for number in (8, 9):
        store.end(str(number), ended(number))
    store.flush()
    assert [job.id for job in store.history(100)[0]] == ["7", "8", "9"]
    store.close()
    leftover, _ = read_history(path, 100)
    assert {each.job for each in leftover.spans} == {"7"}


def test_numbers_count_up_across_restarts(store):
    assert [store.next_id() for _ in range(3)] == ["1", "2", "3"]
    reopened = again(store)
    assert reopened.next_id() == "4"
    reopened.close()


def test_many_numbers_may_be_taken_before_anything_is_flushed(store):
    numbers = [store.next_id() for _ in range(1000)]
    assert len(set(numbers)) == 1000
    assert store.problem is None


def test_speeds_are_learned_by_name(store):
    store.knowledge.learn_rates("a", [Rate(2, 10.0), Rate(1, 6.0)])
    store.knowledge.learn_rates("b", [Rate(1, 1.0)])
    assert store.knowledge.rates("a") == (Rate(1, 6.0), Rate(2, 10.0))
    assert store.knowledge.rates("c") == ()
    reopened = again(store)
    assert reopened.knowledge.rates("a") == (Rate(1, 6.0), Rate(2, 10.0))
    assert reopened.knowledge.rates("b") == (Rate(1, 1.0),)
    reopened.knowledge.learn_rates("a", [Rate(1, 12.0)])
    # 6 counts 0.7 times as much as 12.
    assert reopened.knowledge.rates("a")[0].steps_per_second == pytest.approx((0.7 * 6 + 12) / 1.7)
    reopened.close()


def test_nothing_measured_is_nothing_learned(store):
    store.knowledge.learn_rates("a", [])
    store.knowledge.learn_rates("b", [Rate(1, 0.0), Rate(2, float("nan")), Rate(3, float("inf"))])
    assert store.knowledge.rates("a") == store.knowledge.rates("b") == ()


def test_names_that_were_learned_longest_ago_are_forgotten(store):
    store.knowledge.learn_rates("first", [Rate(1, 1.0)])
    store.knowledge.learn_rates("second", [Rate(1, 1.0)])
    store.flush()
    store.knowledge.learn_rates("first", [Rate(1, 1.0)])
    for number in range(9_999):
        store.knowledge.learn_rates(f"job-{number}", [Rate(1, 1.0)])
    reopened = again(store)
    assert reopened.knowledge.rates("first") == (Rate(1, 1.0),)
    assert reopened.knowledge.rates("second") == ()
    # The order of learning came back with the file.
    reopened.knowledge.learn_rates("another", [Rate(1, 1.0)])
    assert reopened.knowledge.rates("first") == ()
    assert reopened.knowledge.rates("job-0") == (Rate(1, 1.0),)
    reopened.close()


def test_run_times_are_learned_by_command(store):
    store.knowledge.learn_run_seconds("train", 10.0)
    assert run_seconds(store.knowledge, "train") == 10.0
    assert run_seconds(store.knowledge, "other") is None
    reopened = again(store)
    reopened.knowledge.learn_run_seconds("train", 20.0)
    # 10 counts 0.7 times as much as 20.
    assert run_seconds(reopened.knowledge, "train") == pytest.approx((0.7 * 10 + 20) / 1.7)
    reopened.close()


def test_starts_are_learned_by_name(store):
    store.knowledge.learn_start("a", 10.0)
    reopened = again(store)
    reopened.knowledge.learn_start("a", 20.0)
    assert reopened.knowledge.starts.get("a") == Startup(pytest.approx((0.7 * 10 + 20) / 1.7), 1.7)
    reopened.close()


def test_a_file_from_before_starts_were_learned_goes_on(store):
    store.knowledge.learn_rates("a", [Rate(1, 6.0)])
    store.close()
    with closing(sqlite3.connect(store.path)) as file:
        file.execute("DROP TABLE starts")
    upgraded = Store(store.path)
    assert upgraded.knowledge.rates("a") == (Rate(1, 6.0),)
    upgraded.knowledge.learn_start("a", 10.0)
    reopened = again(upgraded)
    assert reopened.knowledge.starts.get("a") == Startup(10.0, 1.0)
    reopened.close()


def test_commands_that_were_learned_longest_ago_are_forgotten(store):
    for number in range(10_001):
        store.knowledge.learn_run_seconds(f"command {number}", 1.0)
    reopened = again(store)
    assert run_seconds(reopened.knowledge, "command 0") is None
    assert run_seconds(reopened.knowledge, "command 1") == 1.0
    reopened.close()


def test_a_file_from_before_run_times_were_learned_goes_on(store):
    store.knowledge.learn_rates("a", [Rate(1, 6.0)])
    store.save(live(1))
    store.close()
    with closing(sqlite3.connect(store.path)) as file:
        file.executescript("DROP TABLE run_times; PRAGMA user_version = 1;")
    assert read_history(store.path, 10)[0].jobs == []
    upgraded = Store(store.path)
    assert upgraded.knowledge.rates("a") == (Rate(1, 6.0),)
    assert upgraded.load() == [live(1)]
    upgraded.knowledge.learn_run_seconds("train", 10.0)
    reopened = again(upgraded)
    assert run_seconds(reopened.knowledge, "train") == 10.0
    reopened.close()


def test_a_file_from_before_cancelled_jobs_were_marked_is_read(store):
    store.save(live(1))
    store.close()
    with closing(sqlite3.connect(store.path)) as file:
        file.execute("UPDATE live SET record = json_remove(record, '$.cancelled')")
        file.commit()
    reopened = Store(store.path)
    assert reopened.load() == [live(1)]
    reopened.close()


def test_settings_come_back(store):
    assert store.setting("policy") is None
    store.set_setting("policy", "equal")
    store.set_setting("policy", "lend+equal")
    assert store.setting("policy") == "lend+equal"
    reopened = again(store)
    assert reopened.setting("policy") == "lend+equal"
    reopened.close()


def test_file_and_directory_are_for_their_owner_only(store):
    store.save(live(1))
    store.flush()
    assert stat.S_IMODE(store.path.parent.stat().st_mode) == 0o700
    for file in store.path.parent.iterdir():
        assert stat.S_IMODE(file.stat().st_mode) == 0o600, file


def test_closed_it_is_one_file(store):
    store.save(live(1))
    store.close()
    assert os.listdir(store.path.parent) == [store.path.name]
    reopened = Store(store.path)
    assert reopened.load() == [live(1)]
    reopened.close()


@pytest.mark.slow
def test_the_log_does_not_grow_without_end(store):
    for number in range(60):
        for job in range(500):
            store.save(live(job, serial=number, name="n" * 200))
        store.flush()
        for thread in threading.enumerate():
            if thread.name == "tfm-checkpoint":
                thread.join(30)
    log = Path(f"{store.path}-wal").stat().st_size
    # 60 times 500 records of 800 bytes: never copied, it would be 24 MB and more.
    assert log < 6e6
    assert store.problem is None


def test_a_history_is_read_beside_the_controller_and_after_it(store):
    store.set_setting(CPUS, "0-3")
    store.add_span(span(1, 1.0, 2.0))
    store.end("1", ended(1))
    store.save(live(2))
    store.add_span(span(2, 3.0, 4.0))
    store.flush()
    beside, cpus = read_history(store.path, 10)
    assert cpus == 4
    assert beside.jobs == [ended(1)]
    assert beside.spans == [span(1, 1.0, 2.0), span(2, 3.0, 4.0)]
    assert beside.summary.jobs == 1
    assert beside.summary.utilization == pytest.approx(12.5 / (4 * (2001.0 - 1001.0)))
    store.close()
    before = sorted(os.listdir(store.path.parent))
    assert read_history(store.path, 10) == (beside, 4)
    assert sorted(os.listdir(store.path.parent)) == before


def test_the_usual_place(monkeypatch):
    monkeypatch.setenv("XDG_STATE_HOME", "/xdg")
    assert default_state() == Path("/xdg/tf_malleable/controller.db")
    for unusable in ("", "relative"):
        monkeypatch.setenv("XDG_STATE_HOME", unusable)
        monkeypatch.setattr(os, "geteuid", lambda: 0)
        assert default_state() == Path("/var/lib/tf_malleable/controller.db")
        monkeypatch.setattr(os, "geteuid", lambda: 1000)
        monkeypatch.setenv("HOME", "/home/ada")
        assert default_state() == Path("/home/ada/.local/state/tf_malleable/controller.db")
