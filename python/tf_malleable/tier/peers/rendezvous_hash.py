# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Rendezvous hashing: the home of a file, the node that keeps its location records.

Every node computes the same home from the same list of live nodes. If a node leaves, only its
own files get another home.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from hashlib import blake2b


def home_of(key: str, nodes: Collection[str]) -> str:
    """Return the node that keeps the records of a file.

    Args:
        key: Key of the file, the same on all nodes.
        nodes: Live nodes, including this one; at least one.
    """
    (home,) = homes_of((key,), nodes)
    return home


def homes_of(keys: Iterable[str], nodes: Collection[str]) -> dict[str, list[str]]:
    """Return the keys grouped by home."""
    found: dict[str, list[str]] = {}
    fronts = [(f"{len(node)} {node} ".encode(), node) for node in nodes]
    for key in keys:
        # File names may contain line ends, and bytes that are not UTF-8.
        name = key.encode(errors="surrogateescape")
        weights = ((blake2b(front + name, digest_size=8).digest(), node) for front, node in fronts)
        _, home = max(weights)
        found.setdefault(home, []).append(key)
    return found
