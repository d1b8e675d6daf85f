# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Status of a training for the user, and the numbers of processes that users want. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from tf_malleable.elastic.membership.coordination_state import CoordinationState
from tf_malleable.elastic.membership.participants import Participant
from tf_malleable.elastic.membership.phases import Over


@dataclass
class WantedNumbers:
    """Desired numbers of workers and servers, which the supervisors are told.

    Attributes:
        supervisors: Connections of the supervisors, which start processes.
        workers: Desired number of workers.
        servers: Desired number of servers.
        least: Minimum number of workers.
        most: Maximum number of workers.
        most_servers: Maximum number of servers.
        can_decide: True if supervisors can choose the number of workers from a host's grant.
        by_hand: True if the number was set explicitly instead.
    """

    supervisors: set[int] = field(default_factory=set)
    workers: int = 0
    servers: int = 0
    least: int = 1
    most: int = 0
    most_servers: int = 0
    can_decide: bool = False
    by_hand: bool = False

    def supervise(self, serial: int, said: Mapping[str, Any]) -> None:
        """Note a supervisor, and the numbers of processes that it allows."""
        self.supervisors.add(serial)
        self.can_decide = bool(said.get("can_decide"))
        if said.get("by_hand") or not self.by_hand:  # Else it does not know yet what was decided.
            self.workers, self.by_hand = int(said["workers"]), bool(said.get("by_hand"))
            self.servers = int(said["servers"])
        self.least, self.most = int(said["least"]), int(said["most"])
        self.most_servers = int(said["most_servers"])

    def change(self, said: Mapping[str, Any], shards: int) -> str:
        """Change the desired numbers; return a sentence if that is refused, or an empty string."""
        workers, servers = said.get("workers"), said.get("servers")
        if not self.supervisors:
            return (
                "no supervisor starts workers: this training was not started by tfm elastic local"
            )
        if said.get("auto"):
            if not self.can_decide:
                return "no controller grants cores to this training, so its workers are fixed"
            self.by_hand = False
        most = min(self.most, shards)
        if workers is not None and not self.least <= int(workers) <= most:
            return f"WORKERS must be from {self.least} to {most}, not {workers}"
        if servers is not None and not 0 <= int(servers) <= self.most_servers:
            return f"--servers must be from 0 to {self.most_servers}, not {servers}"
        if workers is not None:
            self.workers, self.by_hand = int(workers), True
        self.servers = self.servers if servers is None else int(servers)
        return ""

    def is_short(self, state: CoordinationState) -> bool:
        """Return whether more workers are desired than are here and stay."""
        staying = [each for each in state.everybody.values() if each.is_worker and not each.leaving]
        return bool(self.supervisors) and len(staying) < self.workers

    def as_json(self) -> dict[str, int | bool]:
        """Return the numbers for a message."""
        return {"workers": self.workers, "servers": self.servers, "by_hand": self.by_hand}


def steps_done(state: CoordinationState) -> tuple[int, bool]:
    """Return the number of batches done and True; if no member counts them, of steps and False."""
    current = state.current
    here = [each for each in _known(state).values() if current and current.member(each.id)]
    known = [each.batches[0] for each in here if each.batches[0] is not None]
    if known:
        return max(known), True
    return max((max(each.step, each.position.step) for each in here), default=0), False


def _known(state: CoordinationState) -> Mapping[str, Participant]:
    """Return all processes, including those that were there at the end."""
    ended = state.phase.members if isinstance(state.phase, Over) else ()
    return {each.id: each for each in ended} | state.everybody


def status(
    state: CoordinationState, wanted: WantedNumbers, steps_per_second: float | None = None
) -> dict[str, Any]:
    """Return all that is known, as plain data.

    Args:
        state: What the coordinator knows.
        wanted: Desired numbers of processes.
        steps_per_second: Measured rate; None if unknown.
    """
    current = state.current
    processes: list[dict[str, Any]] = []
    for each in state.everybody.values():
        member = None if current is None else current.member(each.id)
        in_it = current is not None and each.id in current.ids
        processes.append(
            {
                "id": each.id,
                "role": each.role,
                "place": each.place,
                "cpus": each.cpus,
                "state": "in the training" if in_it else "ready" if each.ready else "starting",
                "leaving": each.leaving,
                "finished": each.finished,
                "shards": 0 if member is None else member.stop - member.start,
                "shards_per_second": each.speed,
                "step": max(each.step, each.position.step),
                "batches_done": each.batches[0],
                "batches_total": each.batches[1],
            }
        )
    return {
        "phase": type(state.phase).__name__.lower(),
        "shards": state.shards,
        "generation": 0 if current is None else current.ordinal,
        "step": max(
            (
                max(each.step, each.position.step)
                for each in _known(state).values()
                if current is not None and current.member(each.id) is not None
            ),
            default=0,
        ),
        "steps_done": steps_done(state)[0],
        "steps_total": max(
            (each.batches[1] for each in _known(state).values() if each.batches[1]), default=None
        ),
        "steps_per_second": steps_per_second,
        "wanted": asdict(wanted) | {"supervisors": len(wanted.supervisors)},
        "processes": processes,
        "rescales": [each.as_json() for each in state.ledger],
    }
