# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""The connection to a coordinator that moves, or that is not there yet."""

from __future__ import annotations

import socket
import subprocess
import sys
import threading
import time
from contextlib import closing

import pytest

from tests.support.deadline import DEADLINE
from tests.support.elastic_runs import wait_until
from tf_malleable.elastic.generation import Address
from tf_malleable.elastic.links.errors import MeshError
from tf_malleable.elastic.member.coordinator_client import ClientHandlers, CoordinatorClient
from tf_malleable.elastic.membership.coordinator import Coordinator

SECRET = b"s" * 16
NAME = "digits-coordinator.test"

# A signal's handler may be interrupted by the same signal, as by the second of two kills.
HURRIED = """
import signal, threading
from tf_malleable.elastic.generation import Address
from tf_malleable.elastic.member.coordinator_client import ClientHandlers, CoordinatorClient

handlers = ClientHandlers(hello=dict, beat=dict, heard=print, absent=lambda _: None)
client = CoordinatorClient(Address("127.0.0.1", 1), b"s" * 16, threading.RLock(), handlers, print)
depth = interrupted = 0

def hurry(*_):
    global depth, interrupted
    depth, interrupted = depth + 1, interrupted + (depth == 1)
    if depth == 1:
        signal.setitimer(signal.ITIMER_REAL, interrupted % 20 * 1e-6 + 1e-6)
        for _ in range(50):
            client.hurry()
    else:
        client.hurry()
    depth -= 1

signal.signal(signal.SIGALRM, hurry)
while interrupted < 200:
    hurry()
"""


class Names:
    """Answers for one name what it is told; counts how often it was asked."""

    def __init__(self, monkeypatch):
        self.host, self.asked = None, 0
        self._real = socket.getaddrinfo
        monkeypatch.setattr(socket, "getaddrinfo", self._look_up)

    def _look_up(self, host, *args, **named):
        if host != NAME:
            return self._real(host, *args, **named)
        self.asked += 1
        if self.host is None:
            raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")
        return self._real(self.host, *args, **named)


class OnceAsked:
    """A deadline that is over once a name was asked for so many times, however long that takes."""

    def __init__(self, names, times):
        self._names, self._times = names, times

    def __lt__(self, now):
        return self._names.asked >= self._times


class Running:
    """A coordinator in a thread."""

    def __init__(self, host, port=0):
        listener = socket.create_server((host, port))
        self.port = listener.getsockname()[1]
        self.made = Coordinator(listener, SECRET, 4, first_seconds=0.0)
        self._over = threading.Event()
        self._thread = threading.Thread(target=self.made.serve, args=(self._over.is_set,))
        self._thread.start()

    def close(self):
        self._over.set()
        self._thread.join()
        for each in list(self.made._connections.values()):
            each.close()


def hello():
    position = {"lineage": "", "step": 0, "has_sum": False}
    return {
        "id": "a",
        "role": "worker",
        "address": {"host": "127.0.0.1", "port": 1},
        "cpus": 1,
        "place": "a",
        "ready": False,
        "leaving": False,
        "finished": False,
        "halted": False,
        "generation": None,
        "position": position,
        "highest": 0,
        "rescales": [],
    }


def control(port, said):
    return CoordinatorClient(
        Address(NAME, port),
        SECRET,
        threading.RLock(),
        ClientHandlers(
            hello=hello,
            beat=lambda: {"step": 0, "leaving": False, "speed": None, "number": 0, "stalled": ()},
            heard=lambda _: None,
            absent=lambda _: None,
        ),
        said.append,
    )


@pytest.mark.slow
def test_a_coordinator_comes_late_and_comes_back_at_another_address(monkeypatch):
    names, said = Names(monkeypatch), []
    with closing(Running("127.0.0.2")) as first:
        made = control(first.port, said)
        starting = threading.Thread(target=made.start, args=(time.monotonic() + DEADLINE,))
        starting.start()
        wait_until(lambda: names.asked >= 2, lambda: "it gave up at once")
        assert starting.is_alive()
        names.host = "127.0.0.2"
        starting.join(30)
        assert made.shards == 4
        wait_until(lambda: first.made.has_processes, str)
        port = first.port
    with closing(Running("127.0.0.3", port)) as second:
        names.host = "127.0.0.3"
        wait_until(lambda: second.made.has_processes, lambda: f"asked {names.asked} times")
        made.stop()
    assert said == []


@pytest.mark.slow
def test_without_a_coordinator_it_says_so_once_and_gives_up_in_the_end(monkeypatch):
    monkeypatch.setattr("tf_malleable.elastic.member.coordinator_client._LONG_SECONDS", 0.1)
    names, said = Names(monkeypatch), []
    with pytest.raises(MeshError, match=f"no coordinator .* answers at {NAME}:7070"):
        control(7070, said).start(OnceAsked(names, 4))
    assert said == [f"no coordinator answers at {NAME}:7070: tries again and again"]


def test_a_signal_that_interrupts_its_own_handler_does_no_harm():
    subprocess.run([sys.executable, "-c", HURRIED], check=True, timeout=DEADLINE)
