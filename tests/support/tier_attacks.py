# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""What a hostile user sends to a tier's daemon; as a program, this file is that user.

It prints a line when the attack is under way, and ends when its stdin is closed.
"""

from __future__ import annotations

import fcntl
import os
import resource
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from tests.support.deadline import DEADLINE
from tests.support.tier_machine import HOSTILE, Machine
from tf_malleable.tier.protocol import Identity, MessageKind, ReaderCounts, ReaderMessage

_CONNECTIONS = 20
# What is to stay open until the end.
_HELD: list[socket.socket] = []


@contextmanager
def attack(machine: Machine, verb: str, *arguments: str) -> Iterator[str]:
    """Have the hostile user attack for the length of a with statement; yield what he prints."""
    words = (sys.executable, "-m", "tests.support.tier_attacks", verb, *arguments)
    process = subprocess.Popen(
        machine.command(HOSTILE, *words),
        env=machine.environment(HOSTILE),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    try:
        yield process.stdout.readline().strip()
        assert process.poll() is None, "the attack has ended by itself"
    finally:
        process.kill()
        process.communicate(timeout=DEADLINE)


# The rest is done by the program.


def _connected(path: str) -> socket.socket:
    found = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    found.connect(path)
    return found


def _send(
    to: socket.socket, kind: MessageKind, path: str, *descriptors: int, source: int = -1
) -> None:
    identity = Identity.of(os.fstat(source)) if source >= 0 else None
    data = ReaderMessage(kind, ReaderCounts(), path, identity).encode()
    socket.send_fds(to, [data], list(descriptors))


def _is_heard(to: socket.socket, path: str) -> bool:
    """Return whether the daemon has understood a question, and so all before it."""
    mine, theirs = socket.socketpair()
    _send(to, MessageKind.ASK, path, theirs.fileno())
    theirs.close()
    with mine:
        return bool(mine.recv(1))


def _hand_over(server: str, path: str, part: str) -> str:
    """Hand over another file as one of his own, or as the copy of one, in every message."""
    to = _connected(server)
    try:
        taken = os.open(part, os.O_RDONLY)
    except PermissionError:
        return "out of reach"
    source = os.open(path, os.O_RDONLY)
    for kind in (MessageKind.WHOLE, MessageKind.UNSEEN, MessageKind.READING):
        for descriptors in ((taken,), (source, taken), (taken, taken), (source, taken, taken)):
            _send(to, kind, path, *descriptors, source=source)
            _send(to, kind, path, *descriptors, source=taken)
    return "heard" if _is_heard(to, path) else "not heard"


def _send_paths(server: str, path: str) -> str:
    """Send descriptors that are good for nothing, where a pipe belongs."""
    to = _connected(server)
    for _ in range(50):
        useless = os.open(path, os.O_PATH)
        _send(to, MessageKind.ASK, path, useless)
        os.close(useless)
    return "heard" if _is_heard(to, path) else "not heard"


def _fill_pipes(server: str, path: str) -> str:
    """Ask with pipes that are full, and take back that writing to them does not wait."""
    to = _connected(server)
    pipes = [os.pipe() for _ in range(20)]
    for _, writing in pipes:
        os.set_blocking(writing, False)
        with suppress(BlockingIOError):
            while True:
                os.write(writing, bytes(4096))

    def block() -> None:
        while True:
            for _, writing in pipes:
                fcntl.fcntl(writing, fcntl.F_SETFL, os.O_WRONLY)

    def ask() -> None:
        while True:
            for _, writing in pipes:
                _send(to, MessageKind.ASK, path, writing)

    for task in (block, ask):
        threading.Thread(target=task, daemon=True).start()
    return "asking"


def _send_without_end(server: str, path: str) -> str:
    """Send messages for ever, on many connections."""
    for _ in range(_CONNECTIONS):
        to = _connected(server)

        def say(to: socket.socket = to) -> None:
            with suppress(OSError):  # He is hung up on.
                while True:
                    for kind in (MessageKind.COUNTS, MessageKind.CLOSED, MessageKind.UNSEEN):
                        _send(to, kind, path)

        threading.Thread(target=say, daemon=True).start()
    return "sending"


def _connect(server: str, count: str) -> str:
    """Open connections, as long as the daemon accepts them, and send nothing."""
    held = []
    for _ in range(int(count)):
        held.append(socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET))
        held[-1].setblocking(False)
        try:
            held[-1].connect(server)
        except BlockingIOError:  # The daemon has not accepted those before it yet.
            time.sleep(0.001)
    _HELD.extend(held)
    return "connected"


_VERBS = {
    "connect": _connect,
    "hand over": _hand_over,
    "paths": _send_paths,
    "pipes": _fill_pipes,
    "messages": _send_without_end,
}


def main() -> None:
    """Attack."""
    verb, *arguments = sys.argv[1:]
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    print(_VERBS[verb](*arguments), flush=True)
    sys.stdin.read()


if __name__ == "__main__":
    main()
