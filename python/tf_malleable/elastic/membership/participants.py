# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Participants: the coordinator's view of each process, and proposals of generations. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final, cast

from tf_malleable.elastic.generation import (
    Address,
    Generation,
    Member,
    SliceServer,
    shares,
    step_time,
    with_first_step,
    with_runs,
)
from tf_malleable.elastic.membership.recovery_point import Position

# Shards move to faster members if a step then takes at most this share of its current time.
_WORTH: Final = 0.8
_LEAST_CPUS: Final = 0.001
_MOST: Final = 1e9


@dataclass
class Participant:
    """A connected process.

    Attributes:
        id: Unique id of the process.
        role: ``"worker"`` or ``"server"``.
        address: Address at which the process listens.
        cpus: Number of CPUs with which it computes.
        since: Time of its connection, in seconds of the coordinator's clock.
        place: Host and process id, for the user.
        ready: True if the process can compute.
        leaving: True if it wants to leave.
        halted: True if it does not compute until it is told where to continue.
        finished: True if its training is over.
        stalled: Ids of peers for which it has waited for long.
        generation: Generation that it reported when it connected; None if it was in none.
        position: Its state, as reported when it connected, began, or halted.
        step: Step that follows its state, as far as known.
        speed: Shards a second; None if unknown.
        not_before: Earliest time at which it is asked to join, after it could not be reached.
        batches: Number of batches that its training has done, and in all; None if unknown.
        has_reported: True once it has reported its progress since it connected.
    """

    id: str
    role: str
    address: Address
    cpus: float
    since: float
    place: str = ""
    ready: bool = False
    leaving: bool = False
    halted: bool = False
    finished: bool = False
    stalled: tuple[str, ...] = ()
    generation: Generation | None = None
    position: Position = field(default_factory=lambda: Position("", 0, False))
    step: int = 0
    speed: float | None = None
    not_before: float = 0.0
    batches: tuple[int | None, int | None] = (None, None)
    has_reported: bool = False

    @property
    def is_worker(self) -> bool:
        """Whether the process trains."""
        return self.role == "worker"

    def can_join(self, now: float) -> bool:
        """Return whether the process could be in the next generation."""
        return self.ready and not self.leaving and not self.finished and self.not_before <= now


def participant(said: Mapping[str, Any], now: float) -> Participant:
    """Return a process from its first message.

    Raises:
        KeyError, TypeError, ValueError: The message is malformed.
    """
    told = said["generation"]
    return Participant(
        str(said["id"]),
        str(said["role"]),
        Address(**said["address"]),
        _cpus(said["cpus"]),
        now,
        str(said["place"]),
        bool(said["ready"]),
        bool(said["leaving"]),
        bool(said["halted"]),
        bool(said["finished"]),
        (),
        None if told is None else Generation.from_json(told),
        position(said["position"]),
    )


def is_cpus(value: float) -> bool:
    """Return whether a process can compute with so many CPUs; quotas are thousandths at least."""
    return _LEAST_CPUS <= value <= _MOST


def speed(said: object) -> float | None:
    """Return a speed from a message, in shards a second; None if it is unknown.

    Raises:
        TypeError, ValueError: It is no speed.
    """
    value = None if said is None else float(cast(float, said))
    if value is not None and not 0 <= value <= _MOST:
        raise ValueError(f"{value} is no speed")
    return value


def _cpus(said: object) -> float:
    value = float(cast(float, said))
    if not is_cpus(value):
        raise ValueError(f"{value} is no number of CPUs")
    return value


def position(said: Mapping[str, Any]) -> Position:
    """Return a position from a message."""
    return Position(str(said["lineage"]), int(said["step"]), bool(said["has_sum"]))


def ready(everybody: Mapping[str, Participant], now: float) -> list[Participant]:
    """Return the processes that could be in the next generation, in order of their connection."""
    found = [each for each in everybody.values() if each.can_join(now)]
    return sorted(found, key=lambda each: (each.since, each.id))


@dataclass(frozen=True)
class Proposal:
    """A generation that would be better than the current one.

    Attributes:
        generation: The proposed generation.
        reason: Reason for the change, as in Rescale.reason.
    """

    generation: Generation
    reason: str


def speeds(members: Sequence[Participant]) -> dict[str, float]:
    """Return the speed of each member: as measured, or from the others' mean speed per CPU."""
    known = [each.speed / each.cpus for each in members if each.speed]
    usual = sum(known) / len(known) if known else 1.0
    return {each.id: each.speed or usual * each.cpus for each in members}


def propose(
    current: Generation,
    everybody: Mapping[str, Participant],
    number: int,
    now: float,
    *,
    by_speed: bool,
) -> Proposal | None:
    """Return the generation to prepare; None if no change is worth it.

    Args:
        current: Current generation, of which all processes are connected.
        everybody: All connected processes, by id.
        number: Number for the new generation.
        now: Current time, in seconds of the coordinator's clock.
        by_speed: True to also move shards to faster members.
    """
    here = [everybody[each.id] for each in current.members]
    staying = [each for each in here if not each.leaving]
    able = ready(everybody, now)
    newcomers = [each for each in able if each.is_worker and each.id not in current.ids]
    newcomers = newcomers[: max(0, current.shards - len(staying))]
    if not staying and newcomers:
        staying = here  # They leave once another member has the state.
    elif not staying:
        staying = here[:1]  # The last one is told to end.
    members = [*staying, *newcomers]
    servers = [each for each in able if not each.is_worker]
    by_id = speeds(members)
    fast = [by_id[each.id] for each in members]
    counts = shares(current.shards, fast)
    reason = _reason(current, members, servers)
    if not reason:
        before = [each.stop - each.start for each in current.members]
        gain = step_time(counts, fast) / step_time(before, fast)
        if not by_speed or gain > _WORTH or list(counts) == before:
            return None
        reason = "speed"
    made = with_runs([Member(each.id, each.address, each.cpus, 0, 0) for each in members], counts)
    new = [each.id for each in newcomers]
    if new:
        made = with_first_step(made, new, by_id, current.shards)
    sources = tuple((id_, staying[place % len(staying)].id) for place, id_ in enumerate(new))
    owners = tuple(SliceServer(each.id, each.address) for each in servers)
    return Proposal(Generation(number, current.shards, made, owners, sources), reason)


def _reason(
    current: Generation, members: Sequence[Participant], servers: Sequence[Participant]
) -> str:
    before, after = {each.id for each in current.members}, {each.id for each in members}
    if after - before:
        return "join"
    if before - after:
        return "leave"
    return "servers" if {each.id for each in current.servers} != {s.id for s in servers} else ""


def survivors(
    number: int,
    shards: int,
    order: Sequence[str],
    members: Sequence[Participant],
    servers: Sequence[Participant],
) -> Generation:
    """Return a generation of the remaining processes, in their previous order."""
    places = {id_: place for place, id_ in enumerate(order)}
    kept = sorted(members, key=lambda each: (places.get(each.id, len(places)), each.since, each.id))
    fast = speeds(kept)
    made = with_runs(
        [Member(each.id, each.address, each.cpus, 0, 0) for each in kept],
        shares(shards, [fast[each.id] for each in kept]),
    )
    owners = tuple(SliceServer(each.id, each.address) for each in servers)
    return Generation(number, shards, made, owners)


def sent_away(
    left: Sequence[Participant],
    cuts: Iterable[frozenset[str]],
    order: Sequence[str],
    giver: str | None,
) -> list[tuple[Participant, str]]:
    """Return which of the processes left after a loss are expelled, and why.

    Of two that cannot reach each other, a member stays rather than a server, and a process of the
    previous generation rather than another. A process that wants to leave needs no reason: it may
    still be saving files, for which the others need not wait. It stays if no other would be left,
    or if it must give the last sum.
    """
    found = {
        goes.id: (goes, f"it cannot reach {stays.place}, which goes on")
        for goes, stays in _kept_apart(left, cuts, order)
    }
    workers = [each for each in left if each.is_worker and each.id not in found]
    if not all(each.leaving for each in workers):
        free = [each for each in workers if each.leaving and each.id != giver]
        found |= {each.id: (each, "") for each in free}
    return list(found.values())


def _kept_apart(
    left: Sequence[Participant], cuts: Iterable[frozenset[str]], order: Sequence[str]
) -> list[tuple[Participant, Participant]]:

    def place(one: Participant) -> tuple[bool, int, float, str]:
        number = order.index(one.id) if one.id in order else len(order)
        return not one.is_worker, number, one.since, one.id

    found: list[tuple[Participant, Participant]] = []
    for apart in cuts:
        pair = sorted((each for each in left if each.id in apart), key=place)
        if len(pair) == 2 and not any(goes in pair for goes, _ in found):
            found.append((pair[1], pair[0]))
    return found


def alone(number: int, shards: int, me: Member) -> Generation:
    """Return a generation of one member."""
    return Generation(number, shards, (replace(me, start=0, stop=shards, at_first=None),))
