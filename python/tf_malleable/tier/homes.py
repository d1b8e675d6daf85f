# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Which node keeps the records of a file: its home, by rendezvous hashing.

Every node computes the same home from the same list of live nodes. If one goes, only its own
files get another home.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterable


def home_of(key: str, nodes: Collection[str]) -> str:
    """Return the node that keeps the records of a file.

    Args:
        key: Of the file, the same on all nodes.
        nodes: The live ones, this one among them; at least one.
    """
    return max(nodes, key=lambda node: (_weight(key, node), node))


def homes_of(keys: Iterable[str], nodes: Collection[str]) -> dict[str, list[str]]:
    """Return the keys by their homes."""
    found: dict[str, list[str]] = {}
    for key in keys:
        found.setdefault(home_of(key, nodes), []).append(key)
    return found


def _weight(key: str, node: str) -> bytes:
    # Names of files may have bytes that are no UTF-8, and line ends.
    said = f"{len(node)} {node} {key}".encode(errors="surrogateescape")
    return hashlib.blake2b(said, digest_size=8).digest()
