# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Kills and freezes processes of an elastic training at random, and starts others."""

from __future__ import annotations

import random
import time
from collections import Counter
from contextlib import suppress

from tests.support.elastic_runs import ElasticRun, freeze, thaw, wait_until

KINDS = ("worker", "lead", "two", "server", "coordinator", "both", "freeze", "leave")
# How often each happens, of so many times.
_OFTEN = (3, 2, 2, 2, 1, 1, 2, 1)
_PAUSES_SECONDS = (0.0, 0.7)
_FROZEN_SECONDS = (0.2, 3.0)
_WORKERS, _SERVERS = 3, 1


class ElasticKills:
    """Keeps some workers and a server running, and kills of them.

    Attributes:
        count: How many processes were killed, frozen or sent away.
        kinds: How often each kind of event has happened.
    """

    def __init__(self, run: ElasticRun, seed: int) -> None:
        """Start workers.

        Args:
            run: The training.
            seed: Seed of what happens, and when.
        """
        self.count, self.kinds = 0, Counter[str]()
        self._run, self._random = run, random.Random(seed)
        self._next: list[str] = []
        self._frozen: dict[int, float] = {}
        self._gone: set[int] = set()
        run.start_worker()
        run.wait_for_members(1)  # Its state is that of the undisturbed run.
        self.settle()

    def settle(self) -> None:
        """Have all processes run that are to, and wait until they take part."""
        for pid in list(self._frozen):
            self._thaw(pid)
        self._refill()

        def is_settled() -> bool:
            self._refill()
            return len(self._run.in_training()) == _WORKERS and self._has_server()

        wait_until(is_settled, lambda: str(self._run.status()))

    def _has_server(self) -> bool:
        return len(self._run.in_training("server")) == _SERVERS

    def step(self) -> None:
        """Wait a while, often until all take part again, and do something."""
        if self._random.random() < 0.5:
            self.settle()
        time.sleep(self._random.uniform(*_PAUSES_SECONDS))
        for pid in [pid for pid, until in self._frozen.items() if until < time.monotonic()]:
            self._thaw(pid)
        self._refill()
        # Somebody must have the state: what all have lost is lost. The coordinator may take those
        # for members that have just been killed.
        absent = self._gone | self._frozen.keys()
        members = [pid for pid in self._run.pids() if pid not in absent]
        if len(members) < 2:
            return
        if not self._next:
            self._next = self._random.sample(KINDS, sum(_OFTEN), counts=_OFTEN)
        kind = self._next.pop()
        before = self.count
        self._do(kind, members)
        self.kinds[kind] += self.count > before

    def _do(self, kind: str, members: list[int]) -> None:
        victims = self._random.sample(members[1:], 1)
        if kind == "lead":
            victims = members[:1]
        elif kind == "two":
            victims = members[:2] if len(members) > 2 else []
        elif kind == "server":
            victims = self._run.pids("server")
        elif kind == "coordinator":
            victims = []
        if kind == "freeze":
            freeze(victims[0])
            self._frozen[victims[0]] = time.monotonic() + self._random.uniform(*_FROZEN_SECONDS)
            self.count += 1
            return
        if kind in ("coordinator", "both"):
            self._run.coordinator.kill()
            self.count += 1
        for pid in victims:
            for process in (*self._run.workers, *self._run.servers):
                if process.pid == pid and process.poll() is None:
                    (process.terminate if kind == "leave" else process.kill)()
                    self._gone.add(pid)
                    self.count += 1
        if kind in ("coordinator", "both"):
            time.sleep(self._random.uniform(0.0, 1.0))
            self._run.start_coordinator("--resume")

    def _thaw(self, pid: int) -> None:
        del self._frozen[pid]
        with suppress(ProcessLookupError):
            thaw(pid)

    def _refill(self) -> None:
        run = self._run
        if run.coordinator.poll() is not None:
            run.start_coordinator("--resume")
        # One that is frozen counts: it may come back.
        for _ in range(_WORKERS - sum(each.poll() is None for each in run.workers)):
            run.start_worker()
        for _ in range(_SERVERS - sum(each.poll() is None for each in run.servers)):
            run.start_server()
