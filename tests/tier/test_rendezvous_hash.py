# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Homes: the same on all nodes, evenly spread, and moved only where a node went."""

from __future__ import annotations

from collections import Counter

from tf_malleable.tier.peers.rendezvous_hash import home_of, homes_of

NODES = ["10.0.0.1:7700", "10.0.0.2:7700", "10.0.0.3:7700", "10.0.0.4:7700"]
KEYS = [f"public/data/shard-{number:05}" for number in range(2000)]


def test_the_order_of_the_list_does_not_matter():
    assert [home_of(key, NODES) for key in KEYS] == [home_of(key, NODES[::-1]) for key in KEYS]


def test_each_node_is_home_to_its_part():
    counts = Counter(home_of(key, NODES) for key in KEYS)
    assert set(counts) == set(NODES)
    assert min(counts.values()) > 400


def test_if_a_node_goes_only_its_files_move():
    fewer = NODES[1:]
    for key in KEYS:
        if home_of(key, NODES) != NODES[0]:
            assert home_of(key, fewer) == home_of(key, NODES)


def test_a_name_need_not_be_text():
    assert home_of("public/data/\udcff\n", NODES) in NODES


def test_keys_by_home():
    found = homes_of(KEYS, NODES)
    assert sorted(key for keys in found.values() for key in keys) == sorted(KEYS)
    assert all(home_of(key, NODES) == home for home, keys in found.items() for key in keys)
