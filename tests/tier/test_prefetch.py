# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""What is copied before anybody opens it, and when: while readers read nothing."""

from __future__ import annotations

import asyncio
import os
import time
from types import SimpleNamespace

import pytest

from tests.support.controllers import wait_for
from tests.support.tier_reader import TierReader
from tests.support.tiers import make_source, one_node
from tf_malleable.tier.metrics import Counters
from tf_malleable.tier.readers.access_order import AHEAD, IN_A_ROW, OpeningProgram
from tf_malleable.tier.readers.prefetch import STILL_SECONDS, Prefetcher

COUNT, SIZE = 16, 50_000
FILES = {f"set/{number:02}": os.urandom(SIZE) for number in range(COUNT)}


@pytest.fixture
def source(tmp_path):
    return make_source(tmp_path / "source", FILES)


def paths(source):
    return [source / name for name in FILES]


def run_once(node, source, count):
    """Read so many files as a program does; return it, still running."""
    reader = TierReader(node)
    for path in paths(source)[:count]:
        reader.whole(path)
    return reader


def learn(node, source):
    """Have a program read all files in their order, and forget the copies."""
    run_once(node, source, COUNT).close()
    wait_for(lambda: all(node.has(path) for path in paths(source)))
    node.tfm("drop", source)
    assert not any(node.has(path) for path in paths(source))


@pytest.mark.slow
def test_what_comes_next_is_copied(tmp_path, source):
    with one_node(tmp_path, source) as node:
        learn(node, source)
        reader = run_once(node, source, IN_A_ROW + 1)
        there = paths(source)[: IN_A_ROW + 1 + AHEAD]
        wait_for(lambda: all(node.has(path) for path in there))
        assert node.copy(there[-1]).read_bytes() == FILES[f"set/{len(there) - 1:02}"]
        wait_for(lambda: node.counted("prefetched_bytes") == AHEAD * SIZE)
        assert not node.has(paths(source)[len(there)])
        reader.close()


@pytest.mark.slow
def test_nothing_goes_for_it(tmp_path, source):
    with one_node(tmp_path, source, "--capacity", "1M") as node:
        learn(node, source)
        other = make_source(tmp_path / "source" / "other", {"a": bytes(1_000_000 - 7 * SIZE)})
        node.warm(other / "a")
        assert node.has(other / "a")
        run_once(node, source, IN_A_ROW + 1).close()
        wait_for(lambda: node.counted("prefetched_bytes") > 0)
        time.sleep(0.5)
        assert node.has(other / "a")
        assert node.counted("evictions") == 0


@pytest.mark.slow
def test_nothing_is_copied_in_advance_if_it_is_off(tmp_path, source):
    with one_node(tmp_path, source, "--no-prefetch") as node:
        learn(node, source)
        run_once(node, source, IN_A_ROW + 1).close()
        wait_for(lambda: node.has(paths(source)[IN_A_ROW]))
        time.sleep(0.5)
        assert node.status()["copies"] == IN_A_ROW + 1


class GrowsAlways:
    """A copy of which a reader reads more all the time."""

    by_readers = True

    def __init__(self):
        self.share = 0.0

    def share_there(self):
        self.share += 1e-6
        return self.share


@pytest.mark.parametrize("is_read", [True, False])
def test_a_block_waits_until_readers_read_nothing(is_read):
    growing = {"a": GrowsAlways()} if is_read else {}
    service = SimpleNamespace(growing=growing, counters=Counters())
    turns = []

    async def copy(path, turn):
        began = time.monotonic()
        await turn(1)
        turns.append((path, time.monotonic() - began))
        return 1

    async def main():
        prefetching = Prefetcher(service, copy)
        task = asyncio.create_task(prefetching.run())
        names = [f"/{number}" for number in range(COUNT)]
        for _ in range(2):
            program = OpeningProgram()
            for name in names[: IN_A_ROW + 6]:
                prefetching.opened(program, name)
            prefetching.ended(program)
            names = names[: IN_A_ROW + 5]
        while not turns:
            await asyncio.sleep(0.01)
        task.cancel()

    asyncio.run(main())
    path, waited = turns[0]
    assert path == f"/{IN_A_ROW + 5}"
    # If they do not stop, a file that was begun goes on after a while.
    assert waited > (1.9 if is_read else STILL_SECONDS * 0.9)
