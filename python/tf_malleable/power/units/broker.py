# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Connection to a broker, and the file that describes it."""

from __future__ import annotations

import socket
import ssl
from pathlib import Path
from typing import Annotated

import aiomqtt
import msgspec
from msgspec import Meta

from tf_malleable.api.validation import decode_json

# A broker publishes the will of a lost client after one and a half of these.
KEEPALIVE_SECONDS = 10
# Maximum number of budgets that are sent but not yet acknowledged.
_AT_ONCE = 1000


class Broker(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A broker, as a JSON file describes it.

    Attributes:
        host: Host name or address of the broker.
        port: TCP port of the broker.
        user: User name; AREA/UNIT for a unit.
        password_file: File with the password in its first line; null without one.
        ca_file: File of trusted certificates; null without TLS.
        unit: Name of this unit in its area; null for the host's name.
        lost_after: Seconds without the broker after which the budget is void.
    """

    host: str
    port: Annotated[int, Meta(ge=1, le=65535)] = 1883
    user: str | None = None
    password_file: str | None = None
    ca_file: str | None = None
    unit: str | None = None
    lost_after: Annotated[float, Meta(ge=1, le=86400)] = 900.0


def read_broker(path: Path) -> Broker:
    """Return the broker that a file describes.

    Raises:
        ValueError: The file cannot be read or is invalid; the message is one sentence.
    """
    try:
        return decode_json(path.read_bytes(), Broker)
    except OSError as error:
        raise ValueError(f"cannot read {path}: {error.strerror}") from None
    except ValueError as error:
        raise ValueError(f"{path} describes no broker: {error}") from None


def client(broker: Broker, identifier: str | None, will: aiomqtt.Will | None) -> aiomqtt.Client:
    """Return a client that connects when its context is entered.

    Raises:
        OSError: A file cannot be read.
    """
    password = None
    if broker.password_file is not None:
        password = Path(broker.password_file).read_text().partition("\n")[0]
    tls = None
    if broker.ca_file is not None:
        tls = ssl.create_default_context(cafile=broker.ca_file)
    made = aiomqtt.Client(
        broker.host,
        broker.port,
        username=broker.user,
        password=password,
        identifier=identifier,
        will=will,
        protocol=aiomqtt.ProtocolVersion.V5,
        keepalive=KEEPALIVE_SECONDS,
        tls_context=tls,
        max_inflight_messages=_AT_ONCE,
        # Without it, a small message waits for the acknowledgement of the previous one.
        socket_options=[(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)],
    )
    made.pending_calls_threshold = _AT_ONCE
    return made
