# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Two processes that sum their vectors; as a program, this is one of them."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from tf_malleable.elastic.exchange import Exchange
from tf_malleable.elastic.frames import Link
from tf_malleable.elastic.plan import Address, Generation, Member
from tf_malleable.elastic.tree import Node

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
        kind: ``"unix"`` or ``"tcp"``: what is between them.
        words: Length of the vectors, of float32.
        times: How often to sum.
    """
    pair = _pair(kind)
    module = [sys.executable, "-m", "benchmarks.elastic.exchange"]
    children = [
        subprocess.Popen(
            [*module, me, str(each.fileno()), str(words), str(times)],
            pass_fds=[each.fileno()],
            stdout=subprocess.PIPE,
            text=True,
        )
        for me, each in zip(_MEMBERS, pair, strict=True)
    ]
    for each in pair:
        each.close()
    said = [json.loads(child.communicate()[0]) for child in children]
    both = list(zip(*said, strict=True))
    return Sums(
        [max(wall for wall, _ in sample) for sample in both],
        [sum(cpu for _, cpu in sample) for sample in both],
    )


def _take_part(me: str, descriptor: int, words: int, times: int) -> list[tuple[float, float]]:
    """Sum with the other one; return wall and CPU time of each, in seconds."""
    members = tuple(
        Member(id_, _NOWHERE, 1.0, place, place + 1) for place, id_ in enumerate(_MEMBERS)
    )
    generation = Generation(1, len(members), members)
    (other,) = set(_MEMBERS) - {me}
    link = Link(other, socket.socket(fileno=descriptor))
    exchange = Exchange(generation, me, {other: link}, os.eventfd(0))
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
