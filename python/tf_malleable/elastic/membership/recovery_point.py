# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Recovery point: where to continue after a loss, if only some have applied a step. Pure.

The state after a step is a function of the state before it, as the sum over all shards is the
same whoever computes it. So one training has only one state for each step, and members never
disagree about it: they can only be at different steps. Let P be the greatest step of any survivor.

- A member returns from the sum of step t only when it has all of it, and for that every member
  had to send its part for t. So no member of the same generation is behind by more than one step.
- A member at P has the sum of step P - 1 in memory (it keeps the last one that it has returned),
  unless it has just been given the state as a newcomer. A member at P - 1 gets this sum,
  applies it, and is at P as well: the same bits as if it had taken part until the end.
- A survivor at P - 1 is not helped if only newcomers are at P. It cannot take their state in the
  middle of a step, so it is expelled, and comes back as a newcomer. That takes two losses
  within the milliseconds between the end of a step and the end of a transfer.
- A member that is further behind was frozen, or cut off, while others went on. It is expelled.
- A partly received state is no state: a process without a state counts as a newcomer.

Committing a step (keeping its sum and returning it) and answering a halt exclude each other, so
what a member reports stays true until the coordinator has decided. Two trainings that began apart
never mix: each has a lineage, which travels with the state.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class Position:
    """Position of a process that has stopped.

    Attributes:
        lineage: Lineage of the training whose state it has; empty if it has no state.
        step: Step that follows its state.
        has_sum: True if it has the sum of the step before.
    """

    lineage: str
    step: int
    has_sum: bool


@dataclass(frozen=True)
class Verdict:
    """Where to continue after a loss.

    Attributes:
        lineage: Lineage of the training.
        step: Step to continue with.
        members: Ids of the processes that continue.
        giver: Id of the process that gives the sum of the step before to those that are behind;
            None if none are.
        expelled: Ids of the processes whose state is no longer of use.
    """

    lineage: str
    step: int
    members: frozenset[str]
    giver: str | None
    expelled: frozenset[str]


def reconcile(positions: Mapping[str, Position]) -> Verdict | None:
    """Return where the survivors continue; None if none of them has the state."""
    holders = {id_: each for id_, each in positions.items() if each.lineage}
    if not holders:
        return None
    sizes = Counter(each.lineage for each in holders.values())
    # The most work done; if equal, the most processes; if equal, any, but always the same.
    step, _, lineage = max(
        (each.step, sizes[each.lineage], each.lineage) for each in holders.values()
    )
    ahead = sorted(
        id_ for id_, each in holders.items() if (each.lineage, each.step) == (lineage, step)
    )
    behind = {
        id_ for id_, each in holders.items() if (each.lineage, each.step) == (lineage, step - 1)
    }
    givers = [id_ for id_ in ahead if holders[id_].has_sum]
    giver = givers[0] if givers and behind else None
    members = frozenset(ahead) | (behind if giver is not None else frozenset())
    return Verdict(lineage, step, members, giver, frozenset(holders) - members)
