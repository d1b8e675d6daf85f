# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""A worker without TensorFlow: a state of three vectors, as Adam has, and shards that take time."""

from __future__ import annotations

import signal
import sys
import time
from collections.abc import Sequence

import numpy as np

from tf_malleable.elastic.allreduce.reduction_tree import Node, cover
from tf_malleable.elastic.member.training_member import TrainingMember
from tf_malleable.elastic.mesh import Rescaled, Turn
from tf_malleable.elastic.settings import MeshSettings


class State:
    """The parameters and two moments; a StateHolder."""

    def __init__(self, words: int) -> None:
        """Begin with zeros."""
        self.vectors = [np.zeros(words, np.float32) for _ in range(3)]

    def describe(self) -> bytes:
        """See StateHolder."""
        return b""

    def buffers(self) -> Sequence[memoryview]:
        """See StateHolder."""
        return [each.data for each in self.vectors]

    def release(self) -> None:
        """See StateHolder."""

    def load(self, description: bytes, buffers: Sequence[memoryview]) -> None:
        """See StateHolder."""
        for mine, theirs in zip(self.vectors, buffers, strict=True):
            mine[:] = np.frombuffer(theirs, np.float32)


def main(words: int, shard_seconds: float) -> int:
    """Train until this worker is told to end; return its exit code."""
    settings = MeshSettings.from_environment()
    assert settings is not None
    state, gradient = State(words), np.full(words, 1e-3, np.float32)
    mesh = TrainingMember(settings, state)
    signal.signal(signal.SIGTERM, lambda *_: mesh.leave())
    step = 0
    while True:
        turn = mesh.begin(step)
        while not turn.must_end:
            step = turn.step
            time.sleep(shard_seconds * (turn.stop - turn.start))
            try:
                parts = _parts(mesh, turn, gradient)
                total = gradient if turn.is_only else mesh.reduce(step, parts)
                break
            except Rescaled as change:
                turn = change.turn
        if turn.must_end:
            mesh.close()
            return turn.exit_code
        for vector in state.vectors:
            vector += total
        mesh.end(step)
        step += 1


def _parts(mesh: TrainingMember, turn: Turn, gradient: np.ndarray) -> dict[Node, np.ndarray]:
    return dict.fromkeys(cover(mesh.shards, turn.start, turn.stop), gradient)


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]), float(sys.argv[2])))
