# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Logs of an epoch as float32 words, which travel like the sums of a step. Pure."""

from __future__ import annotations

import json
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from tf_malleable.elastic.allreduce.reduction_tree import Node, cover
from tf_malleable.elastic.mesh import Turn
from tf_malleable.elastic.training.checks import RefusedError
from tf_malleable.elastic.training.position import Logs

if TYPE_CHECKING:
    from tf_malleable.elastic.mesh import Vector

# Each word has one byte.
_LENGTH: Final = 1 << 16


def plain(logs: Logs) -> Logs:
    """Return logs as numbers and lists of numbers, without other values."""
    found: Logs = {}
    for name, value in logs.items():
        with suppress(ValueError, TypeError):
            found[name] = np.asarray(value, np.float64).tolist()
    return found


def as_words(logs: Logs | None) -> Vector:
    """Return logs as words; None as zeros.

    Raises:
        RefusedError: The logs are longer than 65,536 bytes of JSON.
    """
    words = np.zeros(_LENGTH, np.float32)
    if logs is not None:
        said = np.frombuffer(json.dumps(logs).encode(), np.uint8)
        if said.size > _LENGTH:
            raise RefusedError(
                f"an epoch's logs have {said.size} bytes, and at most {_LENGTH} travel"
            )
        words[: said.size] = said
    return words


def from_words(words: Vector) -> Logs:
    """Return the logs that as_words() was given."""
    said: Any = json.loads(bytes(words.astype(np.uint8)).rstrip(b"\0"))
    return {
        name: np.asarray(value) if isinstance(value, list) else value
        for name, value in said.items()
    }


def as_parts(shards: int, turn: Turn, words: Vector) -> dict[Node, Vector]:
    """Return parts for a mesh: the words at shard 0, zeros elsewhere."""
    nodes = cover(shards, turn.start, turn.stop)
    return {node: words if node.start == 0 else np.zeros_like(words) for node in nodes}
