# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Where a copy is in the store, and what is written beside its bytes.

The folder is the index: the copy of /data/x that everybody may read is at public/data/x, and that
of user 1000 alone at private/1000/data/x. Parts that grow are in growing/. Extended attributes say
which version of the source a copy is of, and have the checksum of each block. The shim knows all
of this, too; see cc/tier/protocol.h.
"""

from __future__ import annotations

import errno
import os
from pathlib import Path
from typing import Final

from tf_malleable.tier.node_messages import area_and_path, key_of
from tf_malleable.tier.protocol import (
    BLOCKS_ATTRIBUTE,
    SOURCE_ATTRIBUTE,
    Identity,
    ProtocolError,
)
from tf_malleable.tier.store import blocks
from tf_malleable.tier.store.tenancy import PUBLIC

GROWING: Final = "growing"
PRIVATE: Final = "private"
UNVERIFIED: Final = "unverified"
"""Copies from before the last start of the machine: what a crash left of them is not known."""


def path_of(store: Path, key: str) -> Path:
    """Return where the copy of a file is, given its key."""
    area, path = area_and_path(key)
    return Path(f"{store}/{area}{path}")


def key_at(store: Path, path: Path) -> str | None:
    """Return the key of the copy at a path below the store; None if there can be none."""
    parts = path.relative_to(store).parts
    folders = 1 if parts[0] == PUBLIC else 2
    if parts[0] not in (PUBLIC, PRIVATE) or len(parts) <= folders:
        return None
    return key_of("/".join(parts[:folders]), "/" + "/".join(parts[folders:]))


def mark(descriptor: int, identity: Identity, codes: tuple[int, ...]) -> None:
    """Write beside a copy what it is.

    Raises:
        OSError: The file system keeps no such attributes, or is full.
    """
    os.setxattr(descriptor, BLOCKS_ATTRIBUTE, blocks.pack(codes))
    own = identity._replace(copy_inode=os.fstat(descriptor).st_ino)
    os.setxattr(descriptor, SOURCE_ATTRIBUTE, own.encode())


def renumber(path: Path, identity: Identity) -> None:
    """Write beside a copy what it is, anew.

    Raises:
        OSError: It cannot be written, or is gone.
    """
    own = identity._replace(copy_inode=os.lstat(path).st_ino)
    os.setxattr(path, SOURCE_ATTRIBUTE, own.encode())


def identity_of(file: int | Path) -> Identity | None:
    """Return what a copy is of; None if it is not marked.

    Raises:
        OSError: It cannot be read.
    """
    said = _attribute(file, SOURCE_ATTRIBUTE)
    try:
        return None if said is None else Identity.decode(said)
    except ProtocolError:
        return None


def codes_of(file: int | Path, size: int) -> tuple[int, ...] | None:
    """Return the checksums that are written beside a copy of this size; None if there are none.

    Raises:
        OSError: It cannot be read.
    """
    said = _attribute(file, BLOCKS_ATTRIBUTE)
    try:
        codes = None if said is None else blocks.unpack(said)
    except ValueError:
        return None
    return codes if codes is not None and len(codes) == blocks.block_count(size) else None


def is_good(copy: Path) -> bool:
    """Compare a copy with what is written beside it; returns whether they agree."""
    try:
        with open(copy, "rb", buffering=0) as file:
            identity = identity_of(file.fileno())
            if identity is None or os.fstat(file.fileno()).st_size != identity.size:
                return False
            codes = codes_of(file.fileno(), identity.size)
            return codes == tuple(blocks.checksums_of(file.fileno(), identity.size))
    except OSError:
        return False


def _attribute(file: int | Path, name: str) -> bytes | None:
    try:
        return os.getxattr(file, name)
    except OSError as error:
        if error.errno == errno.ENODATA:
            return None
        raise
