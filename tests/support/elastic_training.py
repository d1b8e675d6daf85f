# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""A training of a few numbers in NumPy, as a program: one worker of an elastic training.

The gradient of a shard depends on the state, the step and the shard, and each step on the
one before, so that any mistake anywhere changes the final state. It ends after as many steps as
the file FOLDER/steps says, once it is there. Each process that ends writes what it has to
FOLDER/PID.json: how it ended, and the digest of its state. With --steps-in, it prints that, too.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import math
import os
import signal
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

import numpy as np

from tf_malleable.elastic.allreduce.reduction_tree import Node, sums_of_run
from tf_malleable.elastic.member.training_member import TrainingMember
from tf_malleable.elastic.mesh import Rescaled, Turn
from tf_malleable.elastic.settings import MeshSettings

STEPS = "steps"
# No worker does so many steps, each of 10 ms and more, while a test decides when they end.
AHEAD = 200
RATE, MOMENTUM = np.float32(0.05), np.float32(0.9)


def write_whole(path: Path, text: str) -> None:
    """Write a file for which others look all the time: they find it whole or not at all."""
    fresh = path.with_suffix(".fresh")
    fresh.write_text(text)
    fresh.rename(path)


class State:
    """Parameters and momentum; a StateHolder."""

    def __init__(self, words: int, first: int = 0) -> None:
        # Differs from process to process until a state is loaded, as unseeded layers do.
        self.weights = np.linspace(-1, 1, words, dtype=np.float32) + np.float32(first)
        self.momentum = np.zeros(words, np.float32)
        self.readers = 0

    def describe(self) -> bytes:
        return json.dumps({"words": len(self.weights)}).encode()

    def buffers(self) -> Sequence[memoryview]:
        self.readers += 1
        return [self.weights.data, self.momentum.data]

    def release(self) -> None:
        self.readers -= 1

    def load(self, description: bytes, buffers: Sequence[memoryview]) -> None:
        words = json.loads(description)["words"]
        self.weights, self.momentum = (np.frombuffer(each, np.float32).copy() for each in buffers)
        assert len(self.weights) == words

    def gradient(self, step: int, shard: int) -> np.ndarray:
        phase = np.float32((step * 7919 + shard * 104729) % 1009) / np.float32(1009)
        return np.sin(self.weights * np.float32(1 + shard / 3) + phase, dtype=np.float32)

    def apply(self, total: np.ndarray) -> None:
        assert self.readers == 0
        self.momentum = MOMENTUM * self.momentum + total
        self.weights = self.weights - RATE * self.momentum

    def digest(self) -> str:
        return hashlib.sha256(self.weights.tobytes() + self.momentum.tobytes()).hexdigest()


def undisturbed(words: int, steps: int, shards: int) -> str:
    """Return the digest that a training by one process ends with."""
    state = State(words)
    for step in range(steps):
        gradients = [state.gradient(step, shard) for shard in range(shards)]
        state.apply(sums_of_run(shards, 0, gradients, np.add)[Node(0, shards)])
    return state.digest()


def parts(state: State, turn: Turn, shards: int, seconds: float) -> dict[Node, np.ndarray]:
    """Compute what a turn asks for, each shard in so many seconds."""
    gradients = []
    for shard in range(turn.start, turn.stop):
        if seconds:
            time.sleep(seconds)
        gradients.append(state.gradient(turn.step, shard))
    return sums_of_run(shards, turn.start, gradients, np.add)


def steps_of(folder: Path) -> float:
    """Return how long the training is, once somebody has decided that."""
    with suppress(FileNotFoundError):
        return int((folder / STEPS).read_text())
    return math.inf


def train(mesh: TrainingMember, state: State, folder: Path, seconds: float) -> Turn:
    """Train to the end, or until this process is to go."""
    step = 0
    if mesh.settings.checkpoint:
        try:
            mesh.ahead()
        except Rescaled as change:
            return change.turn
    while True:
        turn = mesh.begin(step)
        if turn.must_end:
            return turn
        step = turn.step
        if step >= steps_of(folder):
            return mesh.finish()
        while True:
            try:
                found = parts(state, turn, mesh.shards, seconds)
                root = Node(0, mesh.shards)
                total = found[root] if turn.is_only else mesh.reduce(step, found)
                break
            except Rescaled as change:
                turn = change.turn
                if turn.must_end:
                    return turn
        state.apply(total)
        mesh.end(step)
        step += 1
        if step >= steps_of(folder):
            return mesh.finish()


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=Path)
    parser.add_argument("--words", type=int, default=1000)
    parser.add_argument("--shard-seconds", type=float, default=0.0)
    parser.add_argument("--own-start", action="store_true")
    parser.add_argument("--steps-in", type=Path, help="instead of FOLDER")
    said = parser.parse_args()
    settings = MeshSettings.from_environment()
    assert settings is not None
    # The first one begins with the state that undisturbed() begins with.
    state = State(said.words, os.getpid() if said.own_start else 0)
    mesh = TrainingMember(settings, state)
    signal.signal(signal.SIGTERM, lambda *_: mesh.leave())
    turn = train(mesh, state, said.steps_in or said.folder, said.shard_seconds)
    how = "left" if turn.leaving else "late" if turn.finished else "trained"
    found = {"how": how, "step": turn.step, "digest": state.digest(), "lead": turn.is_lead}
    found["kept"] = turn.kept
    write_whole(said.folder / f"{os.getpid()}.json", json.dumps(found))
    if said.steps_in is not None:  # Then nobody here sees its files.
        print(json.dumps(found), flush=True)
    mesh.close()
    sys.exit(turn.exit_code)


if __name__ == "__main__":
    main()
