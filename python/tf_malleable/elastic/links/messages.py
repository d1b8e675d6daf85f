# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Authenticated connections between the processes of a training, and messages on them.

Every connection begins with a challenge in both directions, keyed by the training's secret
(HMAC-SHA256), so neither side needs to trust what the other says before. What follows is neither
encrypted nor signed: an attacker who can write into the connections of others can harm a training.

A message is its length in four bytes and a JSON object. Every operation has a deadline: a peer
that sends nothing, or half a message, costs one thread for a few seconds and nothing else.
"""

from __future__ import annotations

import errno
import hashlib
import hmac
import json
import math
import os
import secrets
import socket
import struct
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

from tf_malleable.elastic.generation import Address
from tf_malleable.elastic.links.errors import MeshError, WrongSecretError

_GREETING: Final = b"tfm-elastic 1\n"
_NONCE: Final = 32
_DIGEST: Final = 32
# Longer than any message, such as the description of a generation of some hundred members.
_LONGEST: Final = 1 << 20
GREETING_SECONDS: Final = 2.0

Message = dict[str, Any]


def machine_id() -> str:
    """Return an id of the running kernel and its network namespace; empty if unknown."""
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
        return f"{boot}/{os.readlink('/proc/self/ns/net')}"
    except OSError:
        return ""


def connect(address: Address, secret: bytes, deadline: float) -> socket.socket:
    """Return an authenticated connection.

    Args:
        address: Address of the process to connect to.
        secret: Secret of the training.
        deadline: When to give up, in seconds of the monotonic clock.

    Raises:
        OSError: The process cannot be reached, or does not answer in time.
        MeshError: The process that answers is not one of this training.
    """
    connection = _dial(address, deadline)
    try:
        _greet(connection, secret, deadline, f"{address.host}:{address.port}")
    except BaseException:
        connection.close()
        raise
    return connection


def _dial(address: Address, deadline: float) -> socket.socket:
    if address.path and address.machine and address.machine == machine_id():
        connection = socket.socket(socket.AF_UNIX)
        try:
            connection.settimeout(_left(deadline))
            connection.connect("\0" + address.path)
            return connection
        except OSError:
            connection.close()
    # Also if the Unix socket is gone, as an error of TCP says more about the cause.
    connection = socket.create_connection((address.host, address.port), _left(deadline))
    if connection.getsockname() == connection.getpeername():
        # Where no process listens, the kernel may choose the same port for this end. Close it at
        # once, without the minute's wait before a process could listen there again.
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        connection.close()
        raise ConnectionRefusedError(errno.ECONNREFUSED, os.strerror(errno.ECONNREFUSED))
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return connection


def _greet(connection: socket.socket, secret: bytes, deadline: float, where: str) -> None:
    said = receive_exactly(connection, len(_GREETING) + _NONCE, deadline)
    if not said.startswith(_GREETING):
        raise MeshError(f"the process at {where} does not belong to an elastic training")
    theirs, ours = said[len(_GREETING) :], secrets.token_bytes(_NONCE)
    send_all(connection, _GREETING + ours + _proof(secret, b"client", theirs + ours), deadline)
    proof = receive_exactly(connection, _DIGEST, deadline)
    if not hmac.compare_digest(proof, _proof(secret, b"server", ours + theirs)):
        raise WrongSecretError(f"the process at {where} has another training's secret")


def accept(connection: socket.socket, secret: bytes, deadline: float) -> None:
    """Authenticate a connection that a peer has opened.

    Raises:
        OSError: The peer has hung up, or was too slow.
        MeshError: The peer is not a process of this training; the message says why.
    """
    nonce = secrets.token_bytes(_NONCE)
    send_all(connection, _GREETING + nonce, deadline)
    said = receive_exactly(connection, len(_GREETING), deadline)
    if said != _GREETING:
        raise MeshError("it does not speak as a process of an elastic training")
    theirs = receive_exactly(connection, _NONCE, deadline)
    proof = receive_exactly(connection, _DIGEST, deadline)
    if not hmac.compare_digest(proof, _proof(secret, b"client", nonce + theirs)):
        # A wrong proof of the right length tells the other side what is wrong.
        with suppress(OSError):
            send_all(connection, bytes(_DIGEST), deadline)
        raise WrongSecretError("it has another training's secret")
    send_all(connection, _proof(secret, b"server", theirs + nonce), deadline)


def _proof(secret: bytes, side: bytes, nonces: bytes) -> bytes:
    return hmac.new(secret, side + nonces, hashlib.sha256).digest()


def encode(message: Mapping[str, Any]) -> bytes:
    """Return a message as bytes."""
    text = json.dumps(message).encode()
    return struct.pack("!I", len(text)) + text


def send(connection: socket.socket, message: Mapping[str, Any], deadline: float) -> None:
    """Send a message.

    Raises:
        OSError: The other side is gone, or too slow.
    """
    send_all(connection, encode(message), deadline)


def send_now(connection: socket.socket, message: Mapping[str, Any]) -> None:
    """Send a message without waiting, while another thread may wait to receive one.

    Raises:
        OSError: The other side is gone, or has not read for a long time.
    """
    data = encode(message)
    # socket.send() would wait for as long as the timeout that the other thread has set.
    if os.write(connection.fileno(), data) != len(data):
        raise BrokenPipeError("the other side does not read")


def receive(connection: socket.socket, deadline: float) -> Message:
    """Return the next message.

    Raises:
        EOFError: There are no more messages.
        OSError: No message arrives in time, or it breaks off.
        MeshError: The message is malformed or too long.
    """
    (length,) = struct.unpack("!I", receive_exactly(connection, 4, deadline))
    if length > _LONGEST:
        raise MeshError(f"a message of {length} bytes is longer than the {_LONGEST} allowed")
    try:
        message = json.loads(
            receive_exactly(connection, length, deadline),
            parse_float=_finite,
            parse_constant=_finite,
        )
    except (ValueError, RecursionError):  # The latter if it is nested too deeply.
        message = None
    if not isinstance(message, dict):
        raise MeshError("it sent a malformed message")
    return message


def _finite(text: str) -> float:
    """Return a number, unless it is one that no integer can be made of."""
    value = float(text)
    if not math.isfinite(value):
        raise ValueError(f"{text} is not a finite number")
    return value


def receive_exactly(connection: socket.socket, size: int, deadline: float) -> bytes:
    """Return the next `size` bytes.

    Raises:
        EOFError: The connection was closed before the first of them.
        OSError: They do not arrive in time, or only some of them.
    """
    data = bytearray(size)
    receive_into(connection, memoryview(data), deadline)
    return bytes(data)


def receive_into(connection: socket.socket, place: memoryview, deadline: float) -> None:
    """Fill a buffer with the next bytes; raise as receive_exactly()."""
    filled = 0
    while filled < len(place):
        connection.settimeout(_left(deadline))
        count = connection.recv_into(place[filled:])
        if count == 0:
            if filled:
                raise ConnectionResetError("the connection broke off")
            raise EOFError("the connection was closed")
        filled += count


def send_all(connection: socket.socket, data: bytes | memoryview, deadline: float) -> None:
    """Send all of these bytes.

    Raises:
        OSError: The other side is gone, or too slow.
    """
    connection.settimeout(_left(deadline))
    connection.sendall(data)


def _left(deadline: float) -> float:
    left = deadline - time.monotonic()
    if left <= 0:
        raise TimeoutError("it took too long")
    return left
