# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Publication: turns a complete part into a copy that readers find; creation of new parts."""

from __future__ import annotations

import errno
import os
from pathlib import Path
from typing import Final

from tf_malleable.tier.node_messages import area_and_path
from tf_malleable.tier.protocol import Identity, name_of
from tf_malleable.tier.store import layout
from tf_malleable.tier.store.block_map import BlockMap
from tf_malleable.tier.store.copy_store import CopyStore, Kept
from tf_malleable.tier.store.partial_copy import PartialCopy
from tf_malleable.tier.store.tenancy import PUBLIC

_OF_DISK: Final = (errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EIO)


class NotPublishedError(Exception):
    """A part cannot be published; the message is one sentence."""


def publish(store: CopyStore, copy: PartialCopy, now: float) -> Kept:
    """Link a part into the store, and account for it with the room reserved for it. Blocks.

    Args:
        store: Store of the complete copies.
        copy: Copy with all blocks present.
        now: Current time in seconds since 1970.

    Raises:
        NotPublishedError: The source file has changed, or the part is incomplete or has a wrong
            size.
        OSError: The disk is full or faulty.
    """
    path = area_and_path(copy.key)[1]
    # Without a source descriptor, the bytes come from another node, which compares its copies
    # with the source. This node will soon do so, too.
    if copy.source >= 0 and not is_still(path, copy.identity, copy.source):
        raise NotPublishedError("the file was changed or replaced while it was copied")
    if os.fstat(copy.part).st_size != copy.size:
        raise NotPublishedError("the part has another size than the source")
    codes = copy.all_codes()
    if codes is None:
        raise NotPublishedError("not all of it is there")
    layout.mark(copy.part, copy.identity, codes)
    store.make_folders(copy.key)
    target = store.path(copy.key)
    try:
        _link(copy.part, target)
    except FileExistsError:  # The copy of another version.
        os.unlink(target)
        _link(copy.part, target)
    kept = Kept(copy.key, copy.identity, now)
    store.add(kept, 0 if copy.is_passing else copy.size)
    return kept


def is_still(path: str, identity: Identity, source: int) -> bool:
    """Return whether a path in the source and a descriptor still refer to the same version.

    Args:
        path: Path of the file in the source.
        identity: Identity of the file when it was opened.
        source: Descriptor of the file; -1 for none.
    """
    try:
        if source >= 0 and not identity.is_same(os.fstat(source)):
            return False
        return identity.is_same(os.stat(path, follow_symlinks=False))
    except PermissionError:
        # The daemon lacks the permission that the reader has. The kernel knows the path that the
        # reader opened.
        return source >= 0 and os.readlink(f"/proc/self/fd/{source}") == path
    except OSError:
        return False


def new_copy(
    store: CopyStore, key: str, identity: Identity, source: int = -1, place: str = ""
) -> PartialCopy:
    """Create a partial copy for the daemon to fill, with its space allocated on the disk.

    Args:
        store: Store of the complete copies.
        key: Key of the file.
        identity: Identity of the file in the source.
        source: Descriptor of the file, which the copy duplicates; -1 for none.
        place: Folder below that of the partial copies; empty for the folder of the area, where
            readers find the partial copy.

    Raises:
        OSError: The disk is full or faulty, or a reader has already begun a copy.
    """
    area, path = area_and_path(key)
    folder = store.growing(place or area)
    owner: int | None = None
    mode = 0o644
    if area != PUBLIC:
        uid = int(area.partition("/")[2])
        store.admit(uid)
        owner, mode = (uid if uid != os.geteuid() else None), 0o600
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    name = name_of(path)
    names = (folder / f"{name}.map", folder / f"{name}.part")
    growth = BlockMap.create(str(names[0]), identity, owner, mode)
    try:
        flags = os.O_CREAT | os.O_EXCL | os.O_RDWR | os.O_CLOEXEC
        part = os.open(names[1], flags, 0o600)
    except OSError:
        growth.close()
        os.unlink(names[0])
        raise
    own = os.dup(source) if source >= 0 else -1
    copy = PartialCopy(key, identity, part, growth, names, False, own)
    try:
        if identity.size:
            os.posix_fallocate(part, 0, identity.size)
        if owner is not None:
            os.fchown(part, owner, -1)
        os.fchmod(part, mode)
    except OSError as error:
        copy.end(error.strerror or str(error))
        raise
    return copy


def is_of_disk(error: OSError) -> bool:
    """Return whether an error means that the disk of the store is full or faulty."""
    return error.errno in _OF_DISK


def _link(part: int, target: Path) -> None:
    # Python follows symbolic links only if a folder's descriptor is given; the absolute path
    # makes the kernel ignore it.
    os.link(f"/proc/self/fd/{part}", target, src_dir_fd=part, follow_symlinks=True)
