# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Which node keeps the records of a file: its home, by rendezvous hashing.

Every node computes the same home from the same list of live nodes. If one goes, only its own
files get another home.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from hashlib import blake2b


def home_of(key: str, nodes: Collection[str]) -> str:
    """Return the node that keeps the records of a file.

    Args:
        key: Of the file, the same on all nodes.
        nodes: The live ones, this one among them; at least one.
    """
    (home,) = homes_of((key,), nodes)
    return home


def homes_of(keys: Iterable[str], nodes: Collection[str]) -> dict[str, list[str]]:
    """Return the keys by their homes."""
    found: dict[str, list[str]] = {}
    fronts = [(f"{len(node)} {node} ".encode(), node) for node in nodes]
    for key in keys:
        # Names of files may have bytes that are no UTF-8, and line ends.
        name = key.encode(errors="surrogateescape")
        weights = ((blake2b(front + name, digest_size=8).digest(), node) for front, node in fronts)
        _, home = max(weights)
        found.setdefault(home, []).append(key)
    return found
