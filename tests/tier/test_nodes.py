# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Tiers of several nodes, as processes: what one has read, the others fetch from it."""

from __future__ import annotations

import os

import pytest

from tests.support.controllers import wait_for
from tests.support.tiers import make_source, nodes

pytestmark = pytest.mark.slow
DATA = {f"set/{n}": os.urandom(size) for n, size in enumerate([3 << 20, (1 << 20) + 7, 5, 0])}
SIZE = sum(map(len, DATA.values()))


def test_a_file_is_read_from_the_source_once(tmp_path):
    source = make_source(tmp_path / "source", DATA)
    with nodes(tmp_path, source, 3) as (a, b, c):
        a.warm(source)
        b.warm(source)
        c.warm(source / "set")
        assert a.counted("source_bytes") == SIZE
        assert b.counted("source_bytes") == c.counted("source_bytes") == 0
        assert b.counted("peer_bytes") == c.counted("peer_bytes") == SIZE
        assert sum(each.counted("served_bytes") for each in (a, b, c)) == 2 * SIZE
        for node in (a, b, c):
            for name, data in DATA.items():
                assert node.copy(source / name).read_bytes() == data


def test_a_holder_that_was_killed_is_no_reason_to_fail(tmp_path):
    source = make_source(tmp_path / "source", DATA)
    with nodes(tmp_path, source, 2) as (a, b):
        a.warm(source)
        a.kill()
        b.warm(source)
        wait_for(lambda: b.counted("source_bytes") + b.counted("unpublished"))
        b.warm(source)
        assert b.copy(source / "set/0").read_bytes() == DATA["set/0"]


def test_a_home_that_was_started_again_is_told_what_there_is(tmp_path):
    source = make_source(tmp_path / "source", DATA)
    with nodes(tmp_path, source, 2) as (a, b):
        a.warm(source)
        b.kill()
        b.start()
        wait_for(lambda: a.status()["records"] + b.status()["records"] >= len(DATA))
        b.warm(source)
        assert b.counted("source_bytes") == 0
