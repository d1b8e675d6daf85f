# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Settings of a tier, validated before the tier changes anything."""

from __future__ import annotations

import ipaddress
import os
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from tf_malleable.tier.object_names import FOLDER, SCHEME, ObjectSource
from tf_malleable.tier.request_signature import LEAST_SECRET

SECRET: Final = "TF_MALLEABLE_TIER_SECRET"
"""Environment variable with the nodes' secret, instead of a file."""
SCRUB_SECONDS: Final = 7 * 86400.0
"""Default of TierSettings.scrub."""
_MOST_PORT: Final = 65535
_DNS: Final = "dns:"


@dataclass(frozen=True)
class NodeAddress:
    """Address at which a node's tier listens for other nodes.

    Attributes:
        host: IP address or host name.
        port: TCP port.
    """

    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


@dataclass(frozen=True)
class TierSettings:
    """Settings of a tier.

    Attributes:
        sources: Folders whose files are copied.
        store: Folder of the copies, on a disk of the node.
        capacity: Maximum size of all copies in bytes; None for nine tenths of the free space.
        socket: Path of the socket for readers.
        listen: Address for requests of other nodes; None without peers.
        peers: Addresses of the nodes; this one may be among them.
        dns: DNS name that resolves to all nodes, with their common port; None for a fixed list.
        secret: Shared secret of the nodes; empty without peers, and possibly with certificates.
        certificate: File with this node's certificate and key; None without TLS.
        authority: File with the CA certificates for the other nodes; None without TLS.
        metrics: TCP port on 127.0.0.1 for Prometheus, 0 for any free one; None for none.
        shared: Whether several users read through the tier. Only the daemon then makes the
            copies that all of them read.
        staleness: Seconds for which a copy may be used without a look at its source; 0 for never.
        scrub: Time in seconds in which each copy is reread from the disk and verified once.
        objects: Objects of S3 that are copied.
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
    staleness: float = 0.0
    scrub: float = SCRUB_SECONDS
    objects: tuple[ObjectSource, ...] = ()


def node_address(text: str, option: str) -> NodeAddress:
    """Parse HOST:PORT.

    Args:
        text: Address as text.
        option: Name of the option, for the error message.

    Raises:
        ValueError: The text is not HOST:PORT.
    """
    host, colon, port = text.rpartition(":")
    host = host.removeprefix("[").removesuffix("]")
    if not host or not colon or not (port.isascii() and port.isdecimal()):
        raise ValueError(f"{option} must be HOST:PORT, such as 10.0.0.1:7700, not {text!r}")
    if int(port) > _MOST_PORT:
        raise ValueError(f"{option} must have a port from 0 to {_MOST_PORT}, not {port}")
    return NodeAddress(host, int(port))


def listening_address(text: str) -> NodeAddress:
    """Parse the address to listen at: a single one, as all of the node's may be too many.

    Raises:
        ValueError: The text is not an IP address and a port, or stands for all addresses.
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
    """Parse a comma-separated list of nodes, or dns:NAME:PORT; return the nodes and the name.

    Raises:
        ValueError: The text is neither.
    """
    if not text:
        return (), None
    if text.startswith(_DNS):
        return (), node_address(text.removeprefix(_DNS), "--peers")
    return tuple(node_address(each.strip(), "--peers") for each in text.split(",")), None


def read_secret(file: Path | None) -> bytes:
    """Return the nodes' secret from a file, or for None from the environment; empty if not set.

    Raises:
        ValueError: The file cannot be read, other users may read it, or the secret is too short.
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
                f"--secret-file {file} is open to other users (mode {mode & 0o777:04o}):"
                " run chmod 600"
            )
    if secret and len(secret) < LEAST_SECRET:
        raise ValueError(
            f"the nodes' secret must have at least {LEAST_SECRET} bytes, not {len(secret)}"
        )
    return secret


def split_sources(text: str) -> tuple[list[Path], tuple[ObjectSource, ...]]:
    """Parse a list of folders and of s3://BUCKET/FOLDER, separated by colons.

    Raises:
        ValueError: One of S3 is malformed.
    """
    parts = [each for each in re.split(r":(?!//)", text) if each]
    objects = tuple(ObjectSource.parse(each) for each in parts if each.startswith(SCHEME))
    return [Path(each) for each in parts if not each.startswith(SCHEME)], objects


def checked_sources(paths: Sequence[Path], store: Path) -> tuple[Path, ...]:
    """Return the folders of the source, with symbolic links resolved.

    Raises:
        ValueError: A path is not a folder, is inside another one, or overlaps with the store.
    """
    if not paths:
        raise ValueError("--source must be given at least once: a folder whose files are copied")
    found: list[Path] = []
    for path in paths:
        resolved = Path(os.path.realpath(path))
        if not resolved.is_dir():
            raise ValueError(f"--source {path} is not a folder")
        if resolved == Path("/") or resolved.is_relative_to(FOLDER):
            raise ValueError("--source / is everything: give the folder of the data")
        for other in (*found, Path(os.path.realpath(store))):
            if resolved.is_relative_to(other) or other.is_relative_to(resolved):
                what = "the store" if other not in found else f"--source {other}"
                raise ValueError(f"--source {path} and {what} are inside each other")
        found.append(resolved)
    return tuple(found)


def check_peers(settings: TierSettings) -> None:
    """Raise ValueError if the settings for other nodes are inconsistent."""
    has_peers = bool(settings.peers) or settings.dns is not None
    if has_peers and settings.listen is None:
        raise ValueError("--peers needs --listen: the others ask this node, too")
    if (settings.certificate is None) != (settings.authority is None):
        raise ValueError("TLS needs both --certificate and --authority, or neither")
    if settings.listen is not None and not settings.secret and settings.certificate is None:
        raise ValueError(
            f"--listen needs a secret that the nodes share: --secret-file, or {SECRET}; or"
            " --certificate and --authority"
        )
    if settings.certificate is not None and settings.listen is None:
        raise ValueError("--certificate is for --listen")
