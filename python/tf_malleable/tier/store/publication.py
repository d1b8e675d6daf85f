# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Makes a part that is whole a copy that readers find."""

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
    """A part does not become a copy; the message is one sentence."""


def publish(store: CopyStore, copy: PartialCopy, now: float) -> Kept:
    """Give a part its name in the store, and the room that was kept for it. Blocks.

    Args:
        store: Where.
        copy: All of which is there.
        now: Seconds since 1970.

    Raises:
        NotPublishedError: The file is another one by now, or the part is not what it should be.
        OSError: The disk is full, or does not work.
    """
    path = area_and_path(copy.key)[1]
    # What comes from another node, that node compares with the source, and soon this one, too.
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
    except FileExistsError:  # Of another version.
        os.unlink(target)
        _link(copy.part, target)
    kept = Kept(copy.key, copy.identity, now)
    store.add(kept, 0 if copy.is_passing else copy.size)
    return kept


def is_still(path: str, identity: Identity, source: int) -> bool:
    """Return whether a name in the source, and a descriptor of it, are still the same file.

    Args:
        path: The name.
        identity: Of the file when it was opened.
        source: The descriptor; -1 for none.
    """
    try:
        if source >= 0 and not identity.is_same(os.fstat(source)):
            return False
        return identity.is_same(os.stat(path, follow_symlinks=False))
    except PermissionError:
        # The daemon may not look, but the reader could: the kernel knows the name that it opened.
        return source >= 0 and os.readlink(f"/proc/self/fd/{source}") == path
    except OSError:
        return False


def new_copy(
    store: CopyStore, key: str, identity: Identity, source: int = -1, place: str = ""
) -> PartialCopy:
    """Return a copy for the daemon to fill, with its space reserved on the disk.

    Args:
        store: Where.
        key: Of the file.
        identity: Of the file in the source.
        source: A descriptor of it, of which the copy gets one of its own; -1 for none.
        place: Below the growing ones; by default where readers find it, too.

    Raises:
        OSError: The disk is full, or does not work, or a reader has begun a copy already.
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
    """Return whether an error says that the store takes no more."""
    return error.errno in _OF_DISK


def _link(part: int, target: Path) -> None:
    # Only with a folder's descriptor, which an absolute path ignores, does Python follow links.
    os.link(f"/proc/self/fd/{part}", target, src_dir_fd=part, follow_symlinks=True)
