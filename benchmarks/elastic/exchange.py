# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Two processes that sum their vectors; as a program, this is one of them."""

from __future__ import annotations

import json
import os
import socket
import sys
import time
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Final

import numpy as np

from benchmarks.elastic.group import Process, environment
from tf_malleable.elastic.allreduce.allreduce import Allreduce
from tf_malleable.elastic.allreduce.reduction_tree import Node
from tf_malleable.elastic.generation import Address, Generation, Member
from tf_malleable.elastic.links.frames import Link

LARGE: Final = 25_000_000
"""Parameters of the vector that is held to a target."""
_MEMBERS: Final = ("0", "1")
# The first sums allocate what the others use again.
_WARM_UP: Final = 2
_NOWHERE: Final = Address("", 0)


@dataclass(frozen=True)
class Sums:
    """What some sums took in two processes.

    Attributes:
        seconds: Each sum, in the process in which it took longer.
        cpu: CPU time of each sum, of both processes.
    """

    seconds: Sequence[float]
    cpu: Sequence[float]


def _pair(kind: str) -> tuple[socket.socket, socket.socket]:
    if kind == "unix":
        return socket.socketpair()
    with socket.create_server(("127.0.0.1", 0)) as listener:
        near = socket.create_connection(listener.getsockname())
        far, _ = listener.accept()
    for each in (near, far):
        each.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return near, far


def measure(kind: str, words: int, times: int) -> Sums:
    """Let two new processes sum vectors.

    Args:
        kind: ``"unix"`` or ``"tcp"``: what is between them; ``"ring"`` for TensorFlow's own sum.
        words: Length of the vectors, of float32.
        times: How often to sum.

    Raises:
        BenchmarkError: They cannot.
    """
    children = _ring(words, times) if kind == "ring" else _exchange(kind, words, times)
    try:
        texts = [child.communicate()[0] for child in children]
        for child in children:
            if child.returncode:
                raise child.problem()
    finally:
        for child in children:
            child.end()
    both = list(zip(*map(json.loads, texts), strict=True))
    return Sums(
        [max(wall for wall, _ in sample) for sample in both],
        [sum(cpu for _, cpu in sample) for sample in both],
    )


def _exchange(kind: str, words: int, times: int) -> list[Process]:
    pair = _pair(kind)
    module = [sys.executable, "-m", "benchmarks.elastic.exchange"]
    children = [
        Process([*module, me, str(each.fileno()), str(words), str(times)], environment(), each)
        for me, each in zip(_MEMBERS, pair, strict=True)
    ]
    for each in pair:
        each.close()
    return children


def _ring(words: int, times: int) -> list[Process]:
    with ExitStack() as held:
        free = [held.enter_context(socket.create_server(("127.0.0.1", 0))) for _ in _MEMBERS]
        addresses = [f"127.0.0.1:{each.getsockname()[1]}" for each in free]
    module = [sys.executable, "-m", "benchmarks.elastic.ring"]
    children = []
    for index in range(len(addresses)):
        said = {"cluster": {"worker": addresses}, "task": {"type": "worker", "index": index}}
        environment_ = environment(TF_CONFIG=json.dumps(said))
        children.append(Process([*module, *map(str, (words, times, _WARM_UP))], environment_))
    return children


def _take_part(me: str, descriptor: int, words: int, times: int) -> list[tuple[float, float]]:
    """Sum with the other one; return wall and CPU time of each, in seconds."""
    members = tuple(
        Member(id_, _NOWHERE, 1.0, place, place + 1) for place, id_ in enumerate(_MEMBERS)
    )
    generation = Generation(1, len(members), members)
    (other,) = set(_MEMBERS) - {me}
    link = Link(other, socket.socket(fileno=descriptor))
    exchange = Allreduce(generation, me, {other: link}, os.eventfd(0))
    place = _MEMBERS.index(me)
    vector = np.random.default_rng(place).random(words, np.float32)
    rooms = [np.empty(words, np.float32) for _ in range(2)]
    found = []
    for step in range(times + _WARM_UP):
        wall, cpu = time.perf_counter(), time.process_time()
        exchange.sum(step, {Node(place, place + 1): vector}, 0, lambda *_, s=step: rooms[s % 2])
        found.append((time.perf_counter() - wall, time.process_time() - cpu))
    return found[_WARM_UP:]


if __name__ == "__main__":
    print(json.dumps(_take_part(sys.argv[1], *map(int, sys.argv[2:]))))
