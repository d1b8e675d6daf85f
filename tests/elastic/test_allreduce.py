# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Sums between threads: the same bits, and what is wrong is noticed."""

from __future__ import annotations

import itertools
import os
import socket
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tf_malleable.elastic.allreduce import allreduce_step
from tf_malleable.elastic.allreduce.allreduce import Allreduce
from tf_malleable.elastic.allreduce.reduction_tree import combine, cover, sums_of_run
from tf_malleable.elastic.generation import Address, Generation, Member, SliceServer, with_runs
from tf_malleable.elastic.links.errors import AbortedError, LinkError, MeshError
from tf_malleable.elastic.links.frames import Link
from tf_malleable.elastic.links.link_setup import peers

HERE = Address("", 0)


def generation_of(shards, counts, servers=0):
    members = [Member(f"m{place}", HERE, 1.0, 0, 0) for place in range(len(counts))]
    owners = tuple(SliceServer(f"s{place}", HERE) for place in range(servers))
    return Generation(1, shards, with_runs(members, counts), owners)


class Together:
    """All processes of a generation, in threads."""

    def __init__(self, generation):
        self.generation = generation
        links = {id_: {} for id_ in generation.ids}
        for one, other in itertools.combinations(generation.ids, 2):
            if other in peers(generation, one):
                near, far = socket.socketpair()
                links[one][other] = Link(other, near)
                links[other][one] = Link(one, far)
        self.links = links
        self.aborted = {id_: os.eventfd(0) for id_ in links}
        self.exchanges = {
            id_: Allreduce(generation, id_, mine, self.aborted[id_]) for id_, mine in links.items()
        }

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for mine in self.links.values():
            for link in mine.values():
                link.close()
        for descriptor in self.aborted.values():
            os.close(descriptor)

    def take_part(self, id_, step, values, proposed=0):
        """Take part in a step, with the values of all shards."""
        exchange = self.exchanges[id_]
        member = self.generation.member(id_)
        if member is None:
            return exchange.sum(None, {}, 0, np.empty)
        start, stop = self.generation.run(id_, is_first_step=exchange.is_first)
        parts = sums_of_run(self.generation.shards, start, values[start:stop], np.add)
        return exchange.sum(step, parts, proposed, np.empty)

    def step(self, step, values, proposed=()):
        """Have all take part; return what each has, by its id."""
        ids = self.generation.ids
        with ThreadPoolExecutor(len(ids)) as threads:
            asked = {
                id_: threads.submit(self.take_part, id_, step, values, dict(proposed).get(id_, 0))
                for id_ in ids
            }
            return {id_: each.result(30) for id_, each in asked.items()}


@settings(max_examples=25, deadline=None)
@given(
    st.lists(st.integers(0, 5), min_size=1, max_size=4).filter(any),
    st.integers(0, 2),
    st.sampled_from([1, 15, 16, 100, 5000]),
    st.sampled_from(["float32", "float64"]),
    st.integers(0, 2**31),
)
def test_all_have_the_bits_of_one_member(counts, servers, words, type_, seed):
    shards = sum(counts)
    values = np.random.default_rng(seed).standard_normal((shards, words)).astype(type_)
    expected = combine(
        shards,
        {node: values[node.start] for s in range(shards) for node in cover(shards, s, s + 1)},
        np.add,
    )
    with Together(generation_of(shards, counts, servers)) as together:
        for step in (7, 8):
            found = together.step(step, values)
            for member in together.generation.members:
                assert found[member.id].vector.tobytes() == expected.tobytes()
                assert (found[member.id].step, found[member.id].following) == (step, 0)


@pytest.mark.parametrize("servers", [0, 2])
def test_vectors_may_have_another_length_in_each_step(servers):
    """As they have where gradients are sparse."""
    with Together(generation_of(3, (1, 2), servers)) as together:
        for step, (words, type_) in enumerate(
            [(100, "f4"), (5000, "f4"), (3, "f8"), (100, "f4"), (7000, "f4")]
        ):
            values = np.random.default_rng(step).standard_normal((3, words)).astype(type_)
            expected = (values[0] + values[1]) + values[2]
            found = together.step(step, values)
            for member in together.generation.members:
                assert found[member.id].vector.tobytes() == expected.tobytes()


def test_many_small_chunks(monkeypatch):
    monkeypatch.setattr(allreduce_step, "_CHUNK", 64)
    values = np.random.default_rng(1).standard_normal((5, 3001)).astype("f4")
    expected = combine(5, {cover(5, s, s + 1)[0]: values[s] for s in range(5)}, np.add)
    for servers in (0, 2):
        with Together(generation_of(5, (3, 2, 0), servers)) as together:
            found = together.step(0, values)
            assert all(
                found[m.id].vector.tobytes() == expected.tobytes()
                for m in together.generation.members
            )


@pytest.mark.parametrize("servers", [0, 2])
def test_what_one_proposes_all_agree_on(servers):
    values = np.ones((3, 100), np.float32)
    with Together(generation_of(3, (1, 1, 1), servers)) as together:
        assert {each.following for each in together.step(0, values).values()} == {0}
        found = together.step(1, values, {"m1": 5}.items())
        assert {each.following for each in found.values()} == {5}


def test_a_peer_that_hangs_up_is_named():
    values = np.ones((2, 100), np.float32)
    with Together(generation_of(2, (1, 1))) as together:
        together.links["m1"]["m0"].socket.shutdown(socket.SHUT_RDWR)
        with pytest.raises(LinkError) as raised:
            together.take_part("m0", 0, values)
        assert raised.value.lost == ("m1",)


def test_a_step_can_be_aborted():
    with Together(generation_of(2, (1, 1))) as together:
        os.eventfd_write(together.aborted["m0"], 1)
        with pytest.raises(AbortedError):
            together.take_part("m0", 0, np.ones((2, 100), np.float32))


def test_another_plan_of_the_same_number_is_noticed():
    """It would else be the wrong sum."""
    values = np.ones((3, 100), np.float32)
    with Together(generation_of(3, (1, 2))) as together:
        others = together.exchanges["m1"]
        others.generation = replace(
            generation_of(3, (1, 2)), members=generation_of(3, (2, 1)).members
        )
        with ThreadPoolExecutor(1) as threads:
            other = threads.submit(
                others.sum, 0, dict.fromkeys(cover(3, 2, 3), values[0]), 0, np.empty
            )
            with pytest.raises(LinkError) as raised:
                together.take_part("m0", 0, values)
            assert "which is not what was agreed" in str(raised.value.__cause__)
            together.links["m0"]["m1"].socket.shutdown(socket.SHUT_RDWR)
            with pytest.raises(LinkError):
                other.result(30)


def test_another_program_is_noticed():
    with Together(generation_of(2, (1, 1))) as together, ThreadPoolExecutor(1) as threads:
        other = threads.submit(together.take_part, "m1", 0, np.ones((2, 99), np.float32))
        with pytest.raises(MeshError, match="all must run the same program"):
            together.take_part("m0", 0, np.ones((2, 100), np.float32))
        together.links["m0"]["m1"].socket.shutdown(socket.SHUT_RDWR)
        with pytest.raises((LinkError, MeshError)):
            other.result(30)


def test_parts_that_are_not_of_the_run_are_refused():
    with Together(generation_of(2, (1, 1))) as together, pytest.raises(ValueError, match="run"):
        together.exchanges["m0"].sum(0, {}, 0, np.empty)


def test_it_says_for_whom_it_waits():
    values = np.ones((2, 100), np.float32)
    with Together(generation_of(2, (1, 1))) as together, ThreadPoolExecutor(1) as threads:
        exchange = together.exchanges["m0"]
        waiting = threads.submit(together.take_part, "m0", 0, values)
        while not exchange.waits_for(0.0):
            assert not waiting.done()
        assert exchange.waits_for(0.0) == ("m1",)
        assert exchange.waits_for(60.0) == ()
        together.take_part("m1", 0, values)
        waiting.result(30)
        assert exchange.waits_for(0.0) == ()
