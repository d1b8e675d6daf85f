# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Limits for a while, of the program and of threadpoolctl, that overlap in any order.

While some are active, the newest one decides; when all have ended, what was granted or set last.
"""

from __future__ import annotations

import copy
import gc
import json
import pickle
from concurrent.futures import ThreadPoolExecutor

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule
from threadpoolctl import ThreadpoolController, threadpool_info, threadpool_limits

from tf_malleable.runtime import limits
from tf_malleable.runtime.limits import set_by_grant, set_threads, threads


class Block:
    """A temporary limit, as its model has it.

    Attributes:
        own: The limit that it was opened with, or that has been set since.
        ceiling: The last grant since then.
        end: What ends it.
    """

    def __init__(self, own, end):
        self.own, self.ceiling, self.end = own, 8, end


class Overlapping(RuleBasedStateMachine):
    """Opens and ends blocks in three threads, by shared and private controllers."""

    pools = None

    @initialize()
    def start(self):
        self.pools.now = [4, 4]
        self.baseline = 4
        self.blocks = []
        self.shared = [ThreadpoolController(), ThreadpoolController()]
        self.executors = [ThreadPoolExecutor(1) for _ in range(3)]
        self.times = limits.times_set_by_hand()

    def run(self, thread, function, *arguments):
        return self.executors[thread].submit(function, *arguments).result()

    def compare(self):
        wanted = self.baseline
        if self.blocks:
            wanted = min(self.blocks[-1].own, self.blocks[-1].ceiling)
        assert self.pools.now == [wanted, wanted]

    @rule(thread=st.integers(0, 2), number=st.integers(1, 12), which=st.integers(0, 1))
    def limit_by_shared_controller(self, thread, number, which):
        limiter = self.run(thread, lambda: self.shared[which].limit(limits=number))
        self.blocks.append(Block(min(number, 8), limiter.restore_original_limits))
        self.compare()

    @rule(thread=st.integers(0, 2), number=st.integers(1, 12))
    def limit_by_threadpool_limits(self, thread, number):
        limiter = self.run(thread, lambda: threadpool_limits(number, user_api="tensorflow"))
        self.blocks.append(Block(min(number, 8), limiter.restore_original_limits))
        self.compare()

    @rule(thread=st.integers(0, 2), number=st.integers(1, 8))
    def limit_by_threads(self, thread, number):
        block = threads(number)
        self.run(thread, block.__enter__)
        self.blocks.append(Block(number, lambda: block.__exit__(None, None, None)))
        self.compare()

    @rule(thread=st.integers(0, 2), number=st.integers(1, 8), which=st.integers(0, 1))
    def limit_other_libraries(self, thread, number, which):
        """As scikit-learn does all the time."""

        def limit():
            with self.shared[which].limit(limits=number, user_api="blas"):
                return list(self.pools.now)

        before = list(self.pools.now)
        assert self.run(thread, limit) == before
        self.compare()

    @rule(thread=st.integers(0, 2))
    def look(self, thread):
        self.run(thread, threadpool_info)
        self.run(thread, self.shared[0].info)
        self.compare()

    @precondition(lambda self: self.blocks)
    @rule(thread=st.integers(0, 2), data=st.data())
    def end(self, thread, data):
        index = data.draw(st.integers(0, len(self.blocks) - 1))
        self.run(thread, self.blocks.pop(index).end)
        self.compare()

    @precondition(lambda self: self.blocks)
    @rule(thread=st.integers(0, 2))
    def end_the_newest(self, thread):
        self.run(thread, self.blocks.pop().end)
        self.compare()

    @rule(number=st.integers(1, 12))
    def grant(self, number):
        set_by_grant(number)
        self.baseline = min(number, 8)
        for block in self.blocks:
            block.ceiling = number
        self.compare()

    @rule(thread=st.integers(0, 2), number=st.integers(1, 8))
    def set_by_hand(self, thread, number):
        self.run(thread, set_threads, number)
        self.times += 1
        self.baseline = number
        if self.blocks:
            self.blocks[-1].own, self.blocks[-1].ceiling = number, 8
        self.compare()

    @rule(number=st.integers(1, 12))
    def follow_the_cgroup(self, number):
        assert limits.set_unless_by_hand(number, self.times)
        self.baseline = min(number, 8)
        self.compare()

    def teardown(self):
        while self.blocks:
            self.blocks.pop(0).end()
        self.compare()
        for executor in self.executors:
            executor.shutdown()


@pytest.mark.slow
def test_the_newest_decides_and_then_the_baseline(pools, monkeypatch):
    monkeypatch.setattr(Overlapping, "pools", pools)
    case = Overlapping.TestCase()
    case.settings = settings(deadline=None, max_examples=100, stateful_step_count=20)
    case.runTest()


def test_two_threads_share_a_controller_and_a_grant_comes_between(pools):
    shared = ThreadpoolController()
    first, second = ThreadPoolExecutor(1), ThreadPoolExecutor(1)
    with first, second:
        one = first.submit(shared.limit, limits=1).result()
        set_by_grant(2)
        two = second.submit(shared.limit, limits=1).result()
        first.submit(one.restore_original_limits).result()
        assert pools.now == [1, 1]
        second.submit(two.restore_original_limits).result()
    assert pools.now == [2, 2]


def test_a_grant_while_a_shared_controller_limits_other_libraries(pools):
    shared = ThreadpoolController()
    with shared.limit(limits=1, user_api="blas"):
        set_by_grant(2)
        with shared.limit(limits=1, user_api="blas"):
            pass
    assert pools.now == [2, 2]


def test_nested_limits_of_one_controller(pools):
    shared = ThreadpoolController()
    with shared.limit(limits=1):
        with shared.limit(limits=2):
            assert pools.now == [2, 2]
        assert pools.now == [1, 1]
    assert pools.now == [4, 4]


def test_what_is_set_meanwhile_outlives_the_block(pools):
    with threads(1):
        set_threads(3)
        assert pools.now == [3, 3]
    assert pools.now == [3, 3]


def test_what_another_language_sets_meanwhile_outlives_the_block(pools):
    with threads(1):
        pools.set_threads(3, pools.KEEP)
    assert pools.now == [3, 4]


def test_a_decorated_function_in_several_threads(pools):
    """One object limits in all of them; each call ends its own limit."""
    block = threads(2)
    first, second = ThreadPoolExecutor(1), ThreadPoolExecutor(1)
    with first, second:
        first.submit(block.__enter__).result()
        second.submit(block.__enter__).result()
        set_threads(3)
        second.submit(block.__exit__, None, None, None).result()
        assert pools.now == [2, 2]
        first.submit(block.__exit__, None, None, None).result()
    assert pools.now == [3, 3]


@pytest.mark.slow
def test_limits_that_nobody_can_end_any_more_last_and_are_one(pools):
    """A program may call threadpool_limits(n) as a statement, again and again."""
    for number in (1, 2, 3) * 10:
        threadpool_limits(number, user_api="tensorflow")
        gc.collect()
    assert pools.now == [3, 3]
    with threads(1):
        pass
    assert pools.now == [3, 3]
    set_by_grant(2)
    assert pools.now == [2, 2]
    set_by_grant(6)
    assert pools.now == [3, 3]
    assert len(limits._stack.layers) <= 2


@pytest.mark.parametrize("copied", [int, lambda number: number, copy.copy])
def test_numbers_are_restored_without_a_limiter(pools, copied):
    (one,) = ThreadpoolController().select(user_api="tensorflow").lib_controllers
    for _ in range(2):
        before = copied(one.num_threads)
        one.set_num_threads(1)
        one.set_num_threads(2)
        assert pools.now == [2, 2]
        set_by_grant(6)
        one.set_num_threads(before)
        assert pools.now == [6, 6]


def test_the_numbers_that_are_told_are_plain_outside_of_this_process(pools):
    found = [one for one in threadpool_info() if one["user_api"] == "tensorflow"]
    assert json.loads(json.dumps(found)) == found
    assert type(pickle.loads(pickle.dumps(found))[0]["num_threads"]) is int
    assert {key for key in found[0] if key.startswith("_")} == set()


def test_the_scope_that_threadpoolctl_determines_by_trying_changes_nothing(pools):
    found = threadpool_info(debugging_info=True)
    (scope,) = [one["thread_limit_scope"] for one in found if one["user_api"] == "tensorflow"]
    assert scope == "process"
    assert pools.now == [4, 4]
    set_by_grant(6)
    assert pools.now == [6, 6]


@pytest.mark.parametrize("number", [0, -1, 99])
def test_numbers_out_of_range_are_limited_to_it(pools, number):
    with threadpool_limits(number, user_api="tensorflow"):
        assert pools.now == [8 if number > 0 else 1] * 2
    assert pools.now == [4, 4]
