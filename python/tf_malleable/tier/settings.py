# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""What a tier is started with, checked before anything is touched."""

from __future__ import annotations

import ipaddress
import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from tf_malleable.tier.request_signature import LEAST_SECRET

SECRET: Final = "TF_MALLEABLE_TIER_SECRET"
"""The variable with the secret of the nodes, instead of a file."""
_MOST_PORT: Final = 65535
_DNS: Final = "dns:"


@dataclass(frozen=True)
class NodeAddress:
    """Where a node's tier listens for the others.

    Attributes:
        host: An IP address, or a name.
        port: Of TCP.
    """

    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


@dataclass(frozen=True)
class TierSettings:
    """What a tier is started with.

    Attributes:
        sources: The folders whose files are copied.
        store: The folder of the copies, on a disk of the node.
        capacity: Bytes that copies may take; None for nine tenths of what is free.
        socket: Where readers ask.
        listen: Where other nodes ask; None without peers.
        peers: The other nodes; this one may be among them.
        dns: A name whose addresses are the nodes', all at the same port; None for a fixed list.
        secret: What the nodes share; empty without peers.
        certificate: File with this node's certificate and key, for TLS.
        authority: File with the certificates that the others' are checked against.
        metrics: TCP port on 127.0.0.1 for Prometheus, 0 for any free one; None for none.
        shared: Readers of several users; only the daemon makes copies that all of them read.
        prefetches: Files that are likely to be opened next are copied in advance; not if shared.
    """

    sources: tuple[Path, ...]
    store: Path
    socket: Path
    capacity: int | None = None
    listen: NodeAddress | None = None
    peers: tuple[NodeAddress, ...] = ()
    dns: NodeAddress | None = None
    secret: bytes = field(default=b"", repr=False)
    certificate: Path | None = None
    authority: Path | None = None
    metrics: int | None = None
    shared: bool = False
    prefetches: bool = True


def node_address(text: str, option: str) -> NodeAddress:
    """Return HOST:PORT as an address.

    Raises:
        ValueError: It is none.
    """
    host, colon, port = text.rpartition(":")
    host = host.removeprefix("[").removesuffix("]")
    if not host or not colon or not (port.isascii() and port.isdecimal()):
        raise ValueError(f"{option} must be HOST:PORT, such as 10.0.0.1:7700, not {text!r}")
    if int(port) > _MOST_PORT:
        raise ValueError(f"{option} must have a port from 0 to {_MOST_PORT}, not {port}")
    return NodeAddress(host, int(port))


def listening_address(text: str) -> NodeAddress:
    """Return where to listen: one address of this node, as all of them may be too many.

    Raises:
        ValueError: It is none, or stands for all addresses.
    """
    address = node_address(text, "--listen")
    try:
        parsed = ipaddress.ip_address(address.host)
    except ValueError:
        raise ValueError(
            f"--listen must be an IP address of this node and a port, not {text!r}"
        ) from None
    if parsed.is_unspecified:
        raise ValueError(
            f"--listen must be one address of this node, not {address.host}, which is all of them"
        )
    return address


def peer_list(text: str | None) -> tuple[tuple[NodeAddress, ...], NodeAddress | None]:
    """Return the nodes of a list with commas, and the name of dns:NAME:PORT.

    Raises:
        ValueError: It is neither.
    """
    if not text:
        return (), None
    if text.startswith(_DNS):
        return (), node_address(text.removeprefix(_DNS), "--peers")
    return tuple(node_address(each.strip(), "--peers") for each in text.split(",")), None


def read_secret(file: Path | None) -> bytes:
    """Return the nodes' secret from a file or from the environment; empty if there is none.

    Raises:
        ValueError: It cannot be read, others may read it, or it is too short.
    """
    if file is None:
        secret = os.environ.get(SECRET, "").encode()
    else:
        try:
            with open(file, "rb") as opened:
                mode, secret = os.fstat(opened.fileno()).st_mode, opened.read().strip()
        except OSError as error:
            raise ValueError(f"cannot read --secret-file {file}: {error.strerror}") from None
        if mode & 0o007:
            raise ValueError(
                f"everybody may use --secret-file {file} (mode {mode & 0o777:04o}): run chmod 600"
            )
    if secret and len(secret) < LEAST_SECRET:
        raise ValueError(
            f"the nodes' secret must have at least {LEAST_SECRET} bytes, not {len(secret)}"
        )
    return secret


def checked_sources(paths: Sequence[Path], store: Path) -> tuple[Path, ...]:
    """Return the folders of the source, without links.

    Raises:
        ValueError: One is no folder, is inside another one, or overlaps with the store.
    """
    if not paths:
        raise ValueError("--source must be given at least once: a folder whose files are copied")
    found: list[Path] = []
    for path in paths:
        resolved = Path(os.path.realpath(path))
        if not resolved.is_dir():
            raise ValueError(f"--source {path} is not a folder")
        if resolved == Path("/"):
            raise ValueError("--source / is everything: give the folder of the data")
        for other in (*found, Path(os.path.realpath(store))):
            if resolved.is_relative_to(other) or other.is_relative_to(resolved):
                what = "the store" if other not in found else f"--source {other}"
                raise ValueError(f"--source {path} and {what} are inside each other")
        found.append(resolved)
    return tuple(found)


def check_peers(settings: TierSettings) -> None:
    """Raise ValueError if what is said about other nodes does not go together."""
    has_peers = bool(settings.peers) or settings.dns is not None
    if has_peers and settings.listen is None:
        raise ValueError("--peers needs --listen: the others ask this node, too")
    if settings.listen is not None and not settings.secret:
        raise ValueError(
            f"--listen needs a secret that the nodes share: --secret-file, or {SECRET}"
        )
    if (settings.certificate is None) != (settings.authority is None):
        raise ValueError("TLS needs both --certificate and --authority, or neither")
    if settings.certificate is not None and settings.listen is None:
        raise ValueError("--certificate is for --listen")
