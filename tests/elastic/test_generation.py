# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Plans: all shards once, all words once, and no change without a reason."""

from __future__ import annotations

import itertools
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tf_malleable.elastic import generation
from tf_malleable.elastic.generation import Address, Generation, Member, SliceServer
from tf_malleable.elastic.membership.participants import Participant, propose, speeds, survivors

HERE = Address("127.0.0.1", 1)
SPEEDS = st.lists(st.floats(0.1, 100), min_size=1, max_size=5)


@given(st.integers(1, 12), SPEEDS)
def test_no_other_shares_end_sooner(shards, fast):
    counts = generation.shares(shards, fast)
    assert sum(counts) == shards
    best = min(
        generation.step_time(
            [b - a for a, b in zip((0, *cuts), (*cuts, shards), strict=True)], fast
        )
        for cuts in itertools.combinations_with_replacement(range(shards + 1), len(fast) - 1)
    )
    assert generation.step_time(counts, fast) == pytest.approx(best)


@given(st.integers(0, 10**9), st.integers(1, 300))
def test_slices_have_every_word_once(words, owners):
    edges = generation.bounds(words, owners)
    assert len(edges) == owners
    assert (edges[0][0], edges[-1][1]) == (0, words)
    assert all(first[1] == then[0] for first, then in itertools.pairwise(edges))
    assert all(start <= stop for start, stop in edges)


@given(st.integers(1, 40), SPEEDS, st.integers(1, 4))
def test_a_generation_has_every_shard_once_in_its_first_step_too(shards, fast, veterans):
    members = [Member(str(each), HERE, 1.0, 0, 0) for each in range(len(fast))]
    made = generation.with_runs(members, generation.shares(shards, fast))
    new = [each.id for each in members[veterans:]]
    if new:
        by_id = {each.id: speed for each, speed in zip(members, fast, strict=True)}
        made = generation.with_first_step(made, new, by_id, shards)
    planned = Generation(1, shards, made)
    for first in (True, False):
        runs = [planned.run(each.id, is_first_step=first) for each in made]
        assert [shard for run in runs for shard in range(*run)] == list(range(shards))
    assert all(planned.run(each, is_first_step=True) in {(0, 0), (shards, shards)} for each in new)


def test_a_generation_survives_a_message():
    planned = Generation(
        7,
        4,
        (Member("a", HERE, 2.0, 0, 4, (0, 4)), Member("b", HERE, 1.0, 4, 4)),
        (SliceServer("s", HERE),),
        (("b", "a"),),
    )
    assert Generation.from_json(json.loads(json.dumps(planned.as_json()))) == planned
    assert planned.owners == ("s",)


def test_no_two_coordinators_give_one_number():
    first = generation.next_number(0, 5)
    assert generation.next_number(first, 5) > first
    assert generation.next_number(0, 6) != first
    assert generation.next_number(0, 6) >> 24 == first >> 24 == 1


def worker(id_, **more):
    return Participant(id_, "worker", HERE, 1.0, 0.0, ready=True, **more)


def proposed(current, *everybody, by_speed=True):
    return propose(current, {each.id: each for each in everybody}, 9, 100.0, by_speed=by_speed)


def test_nothing_is_proposed_without_a_difference():
    here = [worker("a"), worker("b")]
    current = survivors(1, 4, (), here, [])
    assert proposed(current, *here) is None
    here[0].speed, here[1].speed = 10.0, 11.0
    assert proposed(current, *here) is None


def test_a_slow_member_gets_fewer_shards_once_that_may_be():
    here = [worker("a", speed=100.0), worker("b", speed=10.0)]
    current = survivors(1, 4, (), [worker("a"), worker("b")], [])
    assert proposed(current, *here, by_speed=False) is None
    found = proposed(current, *here)
    assert found.reason == "speed"
    assert [each.stop - each.start for each in found.generation.members] == [4, 0]


def test_newcomers_join_behind_and_get_the_state_from_members():
    current = survivors(1, 4, (), [worker("a"), worker("b")], [])
    found = proposed(current, worker("a"), worker("b"), worker("c"))
    assert found.reason == "join"
    assert [each.id for each in found.generation.members] == ["a", "b", "c"]
    assert dict(found.generation.sources) == {"c": "a"}
    assert found.generation.run("c", is_first_step=True) == (4, 4)


def test_the_last_to_have_the_state_stay_until_another_one_has_it():
    current = survivors(1, 4, (), [worker("a")], [])
    found = proposed(current, worker("a", leaving=True), worker("b"))
    assert [each.id for each in found.generation.members] == ["a", "b"]
    found = proposed(found.generation, worker("a", leaving=True), worker("b"))
    assert [each.id for each in found.generation.members] == ["b"]
    assert proposed(current, worker("a", leaving=True)) is None


def test_there_are_no_more_members_than_shards():
    current = survivors(1, 2, (), [worker("a")], [])
    found = proposed(current, worker("a"), worker("b"), worker("c"))
    assert [each.id for each in found.generation.members] == ["a", "b"]


def test_servers_own_all_slices_while_there_are_any():
    current = survivors(1, 2, (), [worker("a")], [])
    server = Participant("s", "server", HERE, 1.0, 0.0, ready=True)
    found = proposed(current, worker("a"), server)
    assert (found.reason, found.generation.owners) == ("servers", ("s",))
    server.leaving = True
    assert proposed(found.generation, worker("a"), server).generation.owners == ("a",)


def test_a_speed_that_is_not_known_is_like_the_others():
    members = [worker("a", speed=30.0), worker("b"), worker("c", speed=10.0)]
    assert speeds(members) == {"a": 30.0, "b": 20.0, "c": 10.0}
