# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Ledger of rescales: a record of each change of generation."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any, Final

from tf_malleable.elastic.generation import Generation

# Limit of the records, as each process gets all of them at once.
_REMEMBERED: Final = 200


@dataclass(frozen=True)
class Rescale:
    """A change from one generation to the next.

    Attributes:
        number: Number of the new generation for the user, as Generation.ordinal.
        at: Time of its completion, in seconds since the epoch.
        workers_from: Number of members before.
        workers_to: Number of members after.
        servers_from: Number of servers before.
        servers_to: Number of servers after.
        pause_seconds: Longest time for which a member that stayed could not compute because of
            the change; None while no step has ended.
        reason: ``"start"``, ``"join"``, ``"leave"``, ``"lost"``, ``"speed"`` or ``"servers"``.
    """

    number: int
    at: float
    workers_from: int
    workers_to: int
    servers_from: int
    servers_to: int
    pause_seconds: float | None
    reason: str

    def as_json(self) -> dict[str, Any]:
        """Return the rescale as the JSON value of a message."""
        return asdict(self)

    @classmethod
    def from_json(cls, said: Mapping[str, Any]) -> Rescale:
        """Return the rescale from what as_json() has returned."""
        return cls(**{name: said[name] for name in cls.__dataclass_fields__})


class Ledger:
    """The rescales of a training, by the numbers of their generations."""

    def __init__(self) -> None:
        self._found: dict[int, Rescale] = {}
        # Members may report a pause before it is known that all are in the generation.
        self._early: dict[int, float] = {}

    def __iter__(self) -> Iterator[Rescale]:
        return iter(sorted(self._found.values(), key=lambda each: each.number))

    def note(self, before: Generation | None, after: Generation, at: float, reason: str) -> Rescale:
        """Record a rescale, and return it."""
        self._found[after.ordinal] = found = Rescale(
            after.ordinal,
            at,
            0 if before is None else len(before.members),
            len(after.members),
            0 if before is None else len(before.servers),
            len(after.servers),
            self._early.pop(after.ordinal, None),
            reason,
        )
        self._early.clear()
        while len(self._found) > _REMEMBERED:
            del self._found[min(self._found)]
        return found

    def adopt(self, current: Generation, at: float) -> Rescale | None:
        """Record the rescale that led to a running generation, if it is unknown; return it.

        The coordinator that made the generation has died before it could report the rescale.
        """
        if current.ordinal in self._found:
            return None
        last = max(self._found.values(), key=lambda each: each.number, default=None)
        before = (0, 0) if last is None else (last.workers_to, last.servers_to)
        after = len(current.members), len(current.servers)
        reason = "lost" if after < before else "join" if after[0] > before[0] else "servers"
        pause = self._early.pop(current.ordinal, None)
        sizes = before[0], after[0], before[1], after[1]
        self._found[current.ordinal] = found = Rescale(current.ordinal, at, *sizes, pause, reason)
        return found

    def learn(self, told: Rescale) -> None:
        """Record a rescale that another process knows, with the longest pause known to either."""
        known = self._found.setdefault(told.number, told)
        pauses = told.pause_seconds, known.pause_seconds, self._early.pop(told.number, None)
        longest = max((each for each in pauses if each is not None), default=None)
        self._found[told.number] = replace(known, pause_seconds=longest)

    def paused(self, number: int, seconds: float) -> Rescale | None:
        """Note the pause of a member for a generation; return its rescale, None if unknown."""
        known = self._found.get(number)
        if known is not None:
            seconds = max(seconds, known.pause_seconds or 0.0)
            self._found[number] = known = replace(known, pause_seconds=seconds)
        else:
            self._early[number] = max(seconds, self._early.get(number, 0.0))
        return known
