# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Generation: the members of an elastic training, their shards, and owners of slices. Pure."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import pairwise
from typing import Any, Final

# Low bits of a generation's number, which tell coordinators of one training apart.
_INCARNATION_BITS: Final = 24
# Slices begin at multiples of this many words, so that no cache line has two owners.
_ALIGNMENT: Final = 16


@dataclass(frozen=True)
class Address:
    """Address at which a process listens for the others.

    Attributes:
        host: Name or address of the host.
        port: TCP port.
        machine: Id of the running kernel; processes with the same id may meet at `path`.
        path: Name of a Unix socket in the abstract namespace; empty if there is none.
    """

    host: str
    port: int
    machine: str = ""
    path: str = ""


@dataclass(frozen=True)
class Member:
    """A process that trains.

    Attributes:
        id: Unique id among all processes of the training.
        address: Address at which the member listens.
        cpus: Number of CPUs with which it computes.
        start: First shard of its run.
        stop: First shard after the run; equal to `start` if it computes none.
        at_first: Run of the member in the generation's first step, in which a newcomer computes
            nothing: the state is on its way while the others compute. None if it is no different.
    """

    id: str
    address: Address
    cpus: float
    start: int
    stop: int
    at_first: tuple[int, int] | None = None


@dataclass(frozen=True)
class SliceServer:
    """A process that owns slices of the vector, but computes no shards.

    Attributes:
        id: Unique id among all processes of the training.
        address: Address at which the server listens.
    """

    id: str
    address: Address


@dataclass(frozen=True)
class Generation:
    """One membership of a training.

    Attributes:
        number: Number of the generation, greater than all earlier ones; see next_number().
        shards: Number of shards of each batch.
        members: Members in the order of their runs; the first is the lead.
        servers: Owners of all slices, if there are any; otherwise the members own them.
        sources: Id of each newcomer, with the id of the member that gives it the state.
    """

    number: int
    shards: int
    members: tuple[Member, ...]
    servers: tuple[SliceServer, ...] = ()
    sources: tuple[tuple[str, str], ...] = ()

    @property
    def ordinal(self) -> int:
        """Number of the generation for users; there may be gaps."""
        return self.number >> _INCARNATION_BITS

    @property
    def owners(self) -> tuple[str, ...]:
        """Ids of the processes that own slices, in the order of the slices."""
        return tuple(each.id for each in self.servers or self.members)

    @property
    def processes(self) -> tuple[Member | SliceServer, ...]:
        """All processes of the generation."""
        return (*self.members, *self.servers)

    @property
    def ids(self) -> tuple[str, ...]:
        """Ids of all processes of the generation."""
        return tuple(each.id for each in self.processes)

    def member(self, id: str) -> Member | None:  # noqa: A002
        """Return the member with an id; None if there is none."""
        return next((each for each in self.members if each.id == id), None)

    def run(self, id: str, *, is_first_step: bool) -> tuple[int, int]:  # noqa: A002
        """Return the first shard of a member's run, and the first shard after it."""
        member = self.member(id)
        if member is None:
            return 0, 0
        if is_first_step and member.at_first is not None:
            return member.at_first
        return member.start, member.stop

    def as_json(self) -> dict[str, Any]:
        """Return the generation as the JSON value of a message."""
        return asdict(self)

    @classmethod
    def from_json(cls, said: Mapping[str, Any]) -> Generation:
        """Return the generation from what as_json() has returned.

        Raises:
            KeyError, TypeError, ValueError: The value is malformed.
        """
        return cls(
            int(said["number"]),
            int(said["shards"]),
            tuple(_member(each) for each in said["members"]),
            tuple(SliceServer(each["id"], Address(**each["address"])) for each in said["servers"]),
            tuple((str(to), str(source)) for to, source in said["sources"]),
        )


def incarnation(random: int) -> int:
    """Return the number that tells a coordinator from others of its training, from a random one."""
    return random % (1 << _INCARNATION_BITS)


def next_number(highest: int, incarnation: int) -> int:
    """Return a number for a generation that no other coordinator gives.

    A coordinator that has just started does not know what the one before has prepared. A number
    with two meanings would break every agreement.

    Args:
        highest: Greatest number known.
        incarnation: Incarnation of the coordinator.
    """
    return ((highest >> _INCARNATION_BITS) + 1 << _INCARNATION_BITS) | incarnation


def _member(said: Mapping[str, Any]) -> Member:
    at_first = said["at_first"]
    if at_first is not None:
        start, stop = at_first
        at_first = int(start), int(stop)
    return Member(
        str(said["id"]),
        Address(**said["address"]),
        float(said["cpus"]),
        int(said["start"]),
        int(said["stop"]),
        at_first,
    )


def shares(shards: int, speeds: Sequence[float]) -> tuple[int, ...]:
    """Return the number of shards of each member such that the last one ends soonest.

    Each shard in turn goes to the member that ends first with it, which is optimal for pieces of
    one size (Graham 1969 on machines of different speeds). A slow member may get none.

    Args:
        shards: Number of shards.
        speeds: Speed of each member in shards a second, or any proportional value; positive.
    """
    counts = [0] * len(speeds)
    for _ in range(shards):
        ends = [(count + 1) / speed for count, speed in zip(counts, speeds, strict=True)]
        counts[ends.index(min(ends))] += 1
    return tuple(counts)


def step_time(counts: Sequence[int], speeds: Sequence[float]) -> float:
    """Return the duration of a step, in units of one shard at speed 1."""
    return max(count / speed for count, speed in zip(counts, speeds, strict=True))


def with_runs(members: Sequence[Member], counts: Sequence[int]) -> tuple[Member, ...]:
    """Return these members with contiguous runs of these numbers of shards."""
    found, start = [], 0
    for member, count in zip(members, counts, strict=True):
        found.append(replace(member, start=start, stop=start + count, at_first=None))
        start += count
    return tuple(found)


def with_first_step(
    members: Sequence[Member], newcomers: Collection[str], speeds: Mapping[str, float], shards: int
) -> tuple[Member, ...]:
    """Return these members with runs such that newcomers compute nothing in the first step."""
    counts = shares(shards, [speeds[each.id] for each in members if each.id not in newcomers])
    left, found, start = list(counts), [], 0
    for member in members:
        count = 0 if member.id in newcomers else left.pop(0)
        found.append(replace(member, at_first=(start, start + count)))
        start += count
    return tuple(found)


def bounds(words: int, owners: int) -> tuple[tuple[int, int], ...]:
    """Return the slice of each owner: its first word, and the first word after it.

    Args:
        words: Length of the vector, in words.
        owners: Number of owners; at least 1.
    """
    edges = [
        words if each == owners else words * each // owners // _ALIGNMENT * _ALIGNMENT
        for each in range(owners + 1)
    ]
    return tuple(pairwise(edges))
