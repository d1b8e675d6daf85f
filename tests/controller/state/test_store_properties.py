# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Whatever is kept, in whatever order, with crashes and failures: the store and a plain
model of it agree.
"""

from __future__ import annotations

import shutil
import sqlite3
import tempfile
from copy import deepcopy
from dataclasses import dataclass, field
from pathlib import Path

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from tests.support.records import ended, live, span
from tf_malleable.api.schema.history import JobRecord, Span
from tf_malleable.controller.state.store import Store, read_history
from tf_malleable.scheduling.records.job_record import Record

KEEP = 4


@dataclass
class Model:
    live: dict[str, Record] = field(default_factory=dict)
    ended: dict[str, JobRecord] = field(default_factory=dict)
    spans: list[Span] = field(default_factory=list)
    settings: dict[str, str] = field(default_factory=dict)

    def history(self, limit: int) -> tuple[list[JobRecord], list[Span]]:
        jobs = sorted(self.ended.values(), key=lambda job: job.ended)[-limit:]
        shown = {job.id for job in jobs} | self.live.keys()
        spans = [each for each in self.spans if each.job in shown]
        return sorted(jobs, key=lambda job: job.submitted), spans


class StoreMachine(RuleBasedStateMachine):
    @initialize()
    def open(self):
        self.directory = Path(tempfile.mkdtemp())
        self.generation = 0
        self.store = Store(self.directory / "0.db", keep=KEEP)
        self.now = Model()
        self.on_disk = Model()
        self.numbers: set[str] = set()
        self.time = 0.0

    def teardown(self):
        self.store.close()
        shutil.rmtree(self.directory)

    def tick(self) -> float:
        self.time += 1
        return self.time

    def prune(self) -> None:
        for job in sorted(self.now.ended.values(), key=lambda job: job.ended)[:-KEEP]:
            del self.now.ended[job.id]
            self.now.spans = [each for each in self.now.spans if each.job != job.id]

    @rule()
    def arrives(self):
        number = self.store.next_id()
        assert number not in self.numbers
        self.numbers.add(number)
        record = live(int(number))
        self.store.save(record)
        self.now.live[number] = record

    @rule(data=st.data(), serial=st.integers(0, 3))
    def changes(self, data, serial):
        if self.now.live:
            number = data.draw(st.sampled_from(sorted(self.now.live)))
            begin = self.tick()
            record = live(int(number), serial=serial)
            self.store.save(record)
            self.store.add_span(span(int(number), begin, begin + 0.5))
            self.now.live[number] = record
            self.now.spans.append(span(int(number), begin, begin + 0.5))

    @rule(data=st.data())
    def ends(self, data):
        if self.now.live:
            number = data.draw(st.sampled_from(sorted(self.now.live)))
            record = ended(int(number), 1e6 + self.tick())
            self.store.end(number, record)
            del self.now.live[number]
            self.now.ended[number] = record

    @rule(key=st.sampled_from("ab"), value=st.text(max_size=3))
    def is_set(self, key, value):
        self.store.set_setting(key, value)
        self.now.settings[key] = value

    @rule()
    def flushes(self):
        self.store.flush()
        assert self.store.problem is None
        self.prune()
        self.on_disk = deepcopy(self.now)

    @rule()
    def fails_to_flush(self):
        other = sqlite3.connect(self.store.path, isolation_level=None)
        other.execute("BEGIN IMMEDIATE")
        self.store.flush()
        other.execute("ROLLBACK")
        other.close()

    @rule()
    def restarts(self):
        self.store.close()
        assert self.store.problem is None
        self.prune()
        self.on_disk = deepcopy(self.now)
        self.store = Store(self.store.path, keep=KEEP)

    @rule()
    def is_killed(self):
        """Go on with the files as they are now, as after kill -9."""
        self.generation += 1
        crashed = self.directory / f"{self.generation}.db"
        for suffix in ("", "-wal"):
            if (before := Path(f"{self.store.path}{suffix}")).exists():
                shutil.copy(before, f"{crashed}{suffix}")
        self.store.close()
        self.store = Store(crashed, keep=KEEP)
        self.now = deepcopy(self.on_disk)

    @invariant()
    def agrees(self):
        order = sorted(self.now.live.values(), key=lambda record: record.submitted)
        assert self.store.load() == order
        for key in "ab":
            assert self.store.setting(key) == self.now.settings.get(key)
        for limit in (2, KEEP):
            assert self.store.history(limit) == self.now.history(limit)
        from_outside, _ = read_history(self.store.path, KEEP)
        assert (from_outside.jobs, from_outside.spans) == self.on_disk.history(KEEP)


TestStore = StoreMachine.TestCase
TestStore.settings = settings(max_examples=25, stateful_step_count=30, deadline=None)
