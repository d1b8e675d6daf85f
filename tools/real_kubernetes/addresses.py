# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""The cluster's addresses. Its network is nobody else's, so they are always the same."""

from __future__ import annotations

from typing import Final

CONTROL: Final = "10.97.0.1"
SERVICES: Final = "10.96.0.0/16"
SERVICE_OF_API: Final = "10.96.0.1"
# A node's address ends with 10 + its number.
MOST_NODES: Final = 200


def of_node(number: int) -> str:
    """Return the address of a node, of which the first has number 1."""
    return f"10.97.0.{10 + number}"


def pods_of_node(number: int) -> str:
    """Return the addresses of a node's pods, as "10.98.1.0/24"."""
    return f"10.98.{number}.0/24"
