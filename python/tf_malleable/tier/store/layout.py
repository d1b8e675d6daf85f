# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Layout of the store: paths of the copies, and their extended attributes.

The folder tree is the index: the copy of /data/x that every user may read is public/data/x, and
the copy of user 1000 alone is private/1000/data/x. Partial copies are in growing/. Extended
attributes contain the version of the source that a copy is of, and the checksum of each block. The
modification time of a copy is a hash of that version.
The shim uses the same layout; see cc/tier/protocol.h.
"""

from __future__ import annotations

import errno
import fcntl
import os
import time
from collections.abc import Callable, Iterator
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
"""Folder of copies from before the last boot, whose content a crash may have damaged."""


def path_of(store: Path, key: str) -> str:
    """Return the path of the copy with this key."""
    area, path = area_and_path(key)
    return f"{store}/{area}{path}"


def growing_of(store: Path, area: str) -> str:
    """Return the path of the folder of the partial copies of an area."""
    return f"{store}/{GROWING}/{area}"


def key_at(store: Path, path: Path) -> str | None:
    """Return the key of the copy at a path below the store; None if no copy can be there."""
    parts = path.relative_to(store).parts
    folders = 1 if parts[0] == PUBLIC else 2
    if parts[0] not in (PUBLIC, PRIVATE) or len(parts) <= folders:
        return None
    return key_of("/".join(parts[:folders]), "/" + "/".join(parts[folders:]))


def mark(descriptor: int, identity: Identity, codes: tuple[int, ...]) -> None:
    """Set the extended attributes of a copy, identity and checksums, and its version stamp.

    Raises:
        OSError: The file system has no user attributes, or is full.
    """
    os.setxattr(descriptor, BLOCKS_ATTRIBUTE, blocks.pack(codes))
    own = identity._replace(copy_inode=os.fstat(descriptor).st_ino)
    os.setxattr(descriptor, SOURCE_ATTRIBUTE, own.encode())
    os.utime(descriptor, ns=(time.time_ns(), identity.version_stamp()))


def give(descriptor: int, owner: int | None, mode: int) -> None:
    """Set the permissions of a copy, and its owner unless that is None.

    Raises:
        OSError: The disk is faulty.
    """
    if owner is not None:
        os.fchown(descriptor, owner, -1)
    os.fchmod(descriptor, mode)


def renumber(path: Path, identity: Identity) -> None:
    """Replace the identity in the extended attribute of a copy.

    Raises:
        OSError: The copy is gone, or the attribute cannot be written.
    """
    own = identity._replace(copy_inode=os.lstat(path).st_ino)
    os.setxattr(path, SOURCE_ATTRIBUTE, own.encode())


def identity_of(file: int | Path) -> Identity | None:
    """Return the identity of the source file of a copy; None if the attribute is missing or bad.

    Raises:
        OSError: The attribute cannot be read.
    """
    said = _attribute(file, SOURCE_ATTRIBUTE)
    try:
        return None if said is None else Identity.decode(said)
    except ProtocolError:
        return None


def codes_of(file: int | Path, size: int) -> tuple[int, ...] | None:
    """Return the checksums of a copy of this size; None if the attribute is missing or bad.

    Raises:
        OSError: The attribute cannot be read.
    """
    said = _attribute(file, BLOCKS_ATTRIBUTE)
    try:
        codes = None if said is None else blocks.unpack(said)
    except ValueError:
        return None
    return codes if codes is not None and len(codes) == blocks.block_count(size) else None


def matches(
    copy: int, identity: Identity, rest: Callable[[int], None] = lambda count: None
) -> bool:
    """Return whether the content of an open copy matches its size and its checksums.

    Args:
        copy: Descriptor of the copy.
        identity: Identity of the file in the source, from the copy's attribute.
        rest: As for checksums_of().

    Raises:
        OSError: The copy cannot be read.
    """
    size = identity.size
    return os.fstat(copy).st_size == size and codes_of(copy, size) == tuple(
        blocks.checksums_of(copy, size, rest)
    )


def is_good(copy: Path) -> bool:
    """Return whether a copy is there, and its content matches the attributes."""
    try:
        with open(copy, "rb", buffering=0) as file:
            identity = identity_of(file.fileno())
            return identity is not None and matches(file.fileno(), identity)
    except OSError:
        return False


def is_open(path: Path) -> bool:
    """Return whether any other process has a copy open or mapped."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        # The kernel grants a write lease only if the file is open nowhere else.
        fcntl.fcntl(descriptor, fcntl.F_SETLEASE, fcntl.F_WRLCK)
        fcntl.fcntl(descriptor, fcntl.F_SETLEASE, fcntl.F_UNLCK)
    except OSError:
        return True
    finally:
        os.close(descriptor)
    return False


def files(folder: Path) -> Iterator[Path]:
    """Yield the paths of all files below the folder of a store that may be copies."""
    for name in (PUBLIC, PRIVATE):
        for where, _, names in os.walk(folder / name):
            for each in names:
                yield Path(where, each)


def _attribute(file: int | Path, name: str) -> bytes | None:
    try:
        return os.getxattr(file, name)
    except OSError as error:
        if error.errno == errno.ENODATA:
            return None
        raise
