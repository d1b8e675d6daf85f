# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""What the coordinator knows of each process, and which generation it would like next. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

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

# Shards move to faster members if steps then take at most so much of their time.
_WORTH: Final = 0.8


@dataclass
class Participant:
    """A connected process.

    Attributes:
        id: Names it.
        role: ``"worker"`` or ``"server"``.
        address: Where it listens.
        cpus: With how many CPUs it computes.
        since: When it connected, in seconds of the coordinator's clock.
        place: Its host and process id, for people.
        ready: It can compute.
        leaving: It wants to go.
        halted: It does not compute until it is told where to go on.
        finished: Its training is over.
        stalled: It has waited for these others for long.
        generation: What it said of its generation when it connected.
        position: Its state, as it said when it connected, began, or halted.
        step: The step that follows its state, as far as is known.
        speed: Shards a second; None if not known.
        not_before: It is asked to join no earlier, as it could not be reached.
        batches: How many batches its training has done, and will have done; None if not known.
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

    @property
    def is_worker(self) -> bool:
        """Whether it trains."""
        return self.role == "worker"

    def can_join(self, now: float) -> bool:
        """Return whether it could be in the next generation."""
        return self.ready and not self.leaving and not self.finished and self.not_before <= now


def participant(said: Mapping[str, Any], now: float) -> Participant:
    """Return a process from its first message.

    Raises:
        KeyError, TypeError, ValueError: The message is none.
    """
    told = said["generation"]
    return Participant(
        str(said["id"]),
        str(said["role"]),
        Address(**said["address"]),
        float(said["cpus"]),
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


def position(said: Mapping[str, Any]) -> Position:
    """Return a position from a message."""
    return Position(str(said["lineage"]), int(said["step"]), bool(said["has_sum"]))


def ready(everybody: Mapping[str, Participant], now: float) -> list[Participant]:
    """Return those that could be in the next generation, the first to come first."""
    found = [each for each in everybody.values() if each.can_join(now)]
    return sorted(found, key=lambda each: (each.since, each.id))


@dataclass(frozen=True)
class Proposal:
    """A generation that would be better than the present one.

    Attributes:
        generation: The generation.
        reason: Why: as Rescale.reason.
    """

    generation: Generation
    reason: str


def speeds(members: Sequence[Participant]) -> dict[str, float]:
    """Return the speed of each: as measured, or like that of the others for each CPU."""
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
    """Return the generation to prepare; None if there is no difference worth it.

    Args:
        current: The present generation, of which all processes are connected.
        everybody: All connected processes, by their ids.
        number: For the new generation.
        now: In seconds of the coordinator's clock.
        by_speed: Move shards to faster members, too.
    """
    here = [everybody[each.id] for each in current.members]
    staying = [each for each in here if not each.leaving]
    able = ready(everybody, now)
    newcomers = [each for each in able if each.is_worker and each.id not in current.ids]
    newcomers = newcomers[: max(0, current.shards - len(staying))]
    if not staying and newcomers:
        staying = here  # They go once somebody else has the state.
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
    """Return a generation of those that are left, in the order that they had."""
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
    """Return which of those left after a loss go, and why; no reason is needed for who wants to.

    Of two that cannot reach each other members stay rather than servers, and those that were
    there before rather than others. Who wants to go may still be saving files, for which nobody
    has to wait, unless nobody else would be left or could give the last sum.
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
