# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""A mesh without a network of its own: it stands in for the real one, in tests.

A hub in the test's process knows in advance which members train from which step on, and makes
it so: it waits for those who are to come, takes the state from one who has it, sums, and
kills. Members are processes that reach it through pipes' sockets.
"""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from multiprocessing.connection import Client, Connection, Listener
from typing import Any

import numpy as np

from tf_malleable.elastic.allreduce.reduction_tree import combine
from tf_malleable.elastic.mesh import Rescaled, StateHolder, Turn

# The machine may be slow: members import and trace at once.
_PATIENCE = 150.0


@dataclass(frozen=True)
class Plan:
    """Which members train when.

    Attributes:
        members: By the step from which on they do, in order; the first is the lead.
        kills: Members to be killed while they wait for the sum of a step.
    """

    members: Mapping[int, Sequence[str]]
    kills: Mapping[int, str] = field(default_factory=dict)

    def at(self, step: int) -> list[str]:
        """Return who trains at a step, but for those who were killed before."""
        since = max(begin for begin in self.members if begin <= step)
        dead = {name for killed, name in self.kills.items() if killed < step}
        return [name for name in self.members[since] if name not in dead]


class Hub:
    """What all members talk to."""

    def __init__(self, plan: Plan, shards: int) -> None:
        """Make one; members may come at any time.

        Args:
            plan: Who trains when.
            shards: Shards of the training.
        """
        self.plan = plan
        self.shards = shards
        self._listener = Listener(authkey=b"test")
        self.address = self._listener.address
        self._changed = threading.Condition()
        self._description: bytes | None = None
        self._state: tuple[int, bytes, list[bytes]] | None = None
        self._begun: dict[str, int] = {}
        self._parts: dict[tuple[int, int], dict[str, Any]] = {}
        self._totals: dict[tuple[int, int], Any] = {}
        self._dead: set[str] = set()
        self._gone: set[str] = set()
        # How many were dead when a member was told its run.
        self._told: dict[str, int] = {}
        self._first: dict[int, int] = {}
        self.steps = 0
        threading.Thread(target=self._accept, daemon=True).start()

    def close(self) -> None:
        """Let nobody in any more."""
        self._listener.close()

    def _accept(self) -> None:
        while True:
            try:
                connection = self._listener.accept()
            except OSError:
                return
            threading.Thread(target=self._serve, args=[connection], daemon=True).start()

    def _serve(self, connection: Connection) -> None:
        name, pid = connection.recv()
        answers: dict[str, Callable[..., Any]] = {
            "ahead": self._ahead,
            "begin": self._begin,
            "reduce": self._reduce,
        }
        try:
            while True:
                do, *arguments = connection.recv()
                connection.send(answers[do](name, pid, *arguments))
        except (EOFError, ConnectionError, TimeoutError):
            with self._changed:
                self._gone.add(name)
                self._changed.notify_all()

    def _wait(self, condition: Callable[[], bool]) -> None:
        if not self._changed.wait_for(condition, _PATIENCE):
            raise TimeoutError

    def _ahead(self, name: str, pid: int) -> bytes | None:
        if name == self.plan.at(0)[0]:
            return None
        with self._changed:
            self._wait(lambda: self._description is not None)
            return self._description

    def _begin(
        self, name: str, pid: int, step: int | None, said: bytes, state: list[bytes] | None
    ) -> Any:
        """Answer with a turn; with a state before it for a newcomer, or ask for one."""
        with self._changed:
            if step is None:
                first = min(at for at, names in self.plan.members.items() if name in names)
                self._begun[name] = first
                self._changed.notify_all()
                self._wait(lambda: self._state is not None and self._state[0] == first)
                assert self._state is not None
                return self._turn(name, first), self._state[1:]
            self._description = said
            self.steps = max(self.steps, step)
            come = set(self.plan.at(step)) - set(self.plan.at(step - 1) if step else [name])
            if come and state is None and self._holds(name, step):
                return "state"
            if state is not None:
                self._state = step, said, state
            self._begun[name] = step
            self._changed.notify_all()
            self._wait(lambda: not self._missing(come, step) - self._gone)
            self._dead |= self._missing(come, step)
            return self._turn(name, step), None

    def _missing(self, come: set[str], step: int) -> set[str]:
        return {name for name in come if self._begun.get(name, -1) < step}

    def _holds(self, name: str, step: int) -> bool:
        before = self.plan.at(step - 1) if step else self.plan.at(0)
        return name == before[0]

    def _turn(self, name: str, step: int) -> Turn:
        names = [other for other in self.plan.at(step) if other not in self._dead]
        self._told[name] = len(self._dead)
        generation = len([at for at in self.plan.members if at <= step]) + 100 * len(self._dead)
        if name not in names:
            return Turn(step, generation, leaving=True)
        place, count = names.index(name), len(names)
        start, stop = (self.shards * n // count for n in (place, place + 1))
        first = self._first.setdefault(generation, step) == step
        return Turn(step, generation, start, stop, not place, first, count == 1)

    def _reduce(self, name: str, pid: int, step: int, parts: Any) -> Any:
        with self._changed:
            attempt = len(self._dead)
            if self.plan.kills.get(step) == name and name not in self._dead:
                os.kill(pid, signal.SIGKILL)
                self._dead.add(name)
                self._changed.notify_all()
                return None
            if self._told[name] != attempt:
                return self._turn(name, step)
            at = (step, attempt)
            self._parts.setdefault(at, {})[name] = parts
            self._changed.notify_all()
            names = {other for other in self.plan.at(step) if other not in self._dead}
            self._wait(lambda: names <= self._parts[at].keys() or len(self._dead) != attempt)
            if not names <= self._parts[at].keys():
                return self._turn(name, step)
            if at not in self._totals:
                everyone = {
                    node: part for own in self._parts[at].values() for node, part in own.items()
                }
                self._totals = {at: combine(self.shards, everyone, np.add)}
            return self._totals[at]


class FakeMesh:
    """A member's end."""

    def __init__(self, address: Any, name: str, holder: StateHolder, shards: int) -> None:
        """Connect to a hub."""
        self.shards = shards
        self._holder = holder
        self._is_newcomer = False
        self._connection = Client(address, authkey=b"test")
        self._connection.send((name, os.getpid()))

    def ahead(self) -> bytes | None:
        """Ask the hub."""
        said: bytes | None = self._ask("ahead")
        self._is_newcomer = said is not None
        return said

    def begin(self, step: int) -> Turn:
        """Ask the hub; give or take the state if it says so."""
        if self._is_newcomer:
            turn, (said, state) = self._ask("begin", None, b"", None)
            self._holder.load(said, state)
            self._is_newcomer = False
            return turn
        answer = self._ask("begin", step, self._holder.describe(), None)
        if answer == "state":
            state = [bytes(buffer) for buffer in self._holder.buffers()]
            self._holder.release()
            answer = self._ask("begin", step, self._holder.describe(), state)
        turn, _ = answer
        return turn

    def reduce(self, step: int, parts: Any) -> Any:
        """Ask the hub."""
        answer = self._ask("reduce", step, parts)
        if isinstance(answer, Turn):
            raise Rescaled(answer)
        return answer

    def end(self, step: int) -> None:
        """Do nothing."""

    def finish(self) -> Turn:
        """Return at once."""
        return Turn(0, 0)

    def leave(self) -> None:
        """Do nothing: the hub knows who goes when."""

    def close(self) -> None:
        """Do nothing."""

    def _ask(self, *words: Any) -> Any:
        self._connection.send(words)
        return self._connection.recv()
