# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Copy store: the complete copies on the disk of a node.

The folders are the only index, so no other record can disagree with them after a crash.
Methods block on disk I/O; call them in a thread.
"""

from __future__ import annotations

import os
import shutil
import threading
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final, Protocol, TypeVar

from tf_malleable.linux.processes.procfs import boot_id
from tf_malleable.tier.node_messages import area_and_path, key_of
from tf_malleable.tier.protocol import Identity
from tf_malleable.tier.store import layout
from tf_malleable.tier.store.cache_eviction import StoredCopy, to_evict
from tf_malleable.tier.store.tenancy import ACL_ATTRIBUTE, PUBLIC, search_acl

_BOOT_FILE: Final = "boot-id"
_FREE_SHARE: Final = 0.9
_MODE: Final = 0o755
_PRIVATE_MODE: Final = 0o700
_COPY_MODE: Final = 0o644
_PRIVATE_COPY_MODE: Final = 0o600


@dataclass(frozen=True)
class Kept:
    """A complete copy.

    Attributes:
        key: Key of the file.
        identity: Identity of the file in the source.
        read_at: Time of the last known read, in seconds since 1970.
    """

    key: str
    identity: Identity
    read_at: float

    @property
    def size(self) -> int:
        """Size of the copy in bytes."""
        return self.identity.size


class _Keyed(Protocol):
    """What is of one file: a complete or a partial copy."""

    @property
    def key(self) -> str: ...


_Copy = TypeVar("_Copy", bound=_Keyed)


class CopyStore:
    """The complete copies of a node, and the accounting of their space. Thread-safe.

    Attributes:
        added: Callback for each copy that is added, in any thread: receives its key.
    """

    def __init__(
        self,
        folder: Path,
        sources: tuple[Path, ...],
        capacity: int | None,
        boot: str | None = None,
    ) -> None:
        """Create the folders if need be, and load the index of the copies in them.

        Args:
            folder: Folder of the store.
            sources: Folders whose files are copied.
            capacity: Maximum size of all copies in bytes; None for nine tenths of the free space.
            boot: Id of the current boot, for tests; None for the kernel's.

        Raises:
            OSError: The folder cannot be used.
        """
        self.folder = folder
        self.added: Callable[[str], None] = lambda key: None
        self._sources = sources
        self._lock = threading.RLock()
        self._evicting = threading.Lock()
        self._kept: dict[str, Kept] = {}
        self._unverified: dict[str, Path] = {}
        self._used = self._reserved = 0
        self._admitted: set[int] = set()
        for name in (PUBLIC, layout.PRIVATE):
            (folder / name).mkdir(mode=_MODE, parents=True, exist_ok=True)
        self._set_aside(boot or boot_id())
        self._load()
        free = shutil.disk_usage(folder).free
        self.capacity = int((free + self._used) * _FREE_SHARE) if capacity is None else capacity

    @property
    def used(self) -> int:
        """Bytes of complete copies, and bytes reserved for partial ones."""
        with self._lock:
            return self._used + self._reserved

    @property
    def unverified(self) -> int:
        """Number of copies from before the last boot that are not verified yet."""
        return len(self._unverified)

    def __len__(self) -> int:
        return len(self._kept)

    @property
    def free(self) -> int:
        """Bytes that are available without evictions."""
        return self.capacity - self.used

    def keys(self) -> dict[str, str]:
        """Return the versions of all complete copies by key."""
        with self._lock:
            return {key: kept.identity.version for key, kept in self._kept.items()}

    def kept(self) -> list[Kept]:
        """Return all complete copies."""
        with self._lock:
            return list(self._kept.values())

    def get(self, key: str) -> Kept | None:
        """Return the complete copy of a file; None if there is none."""
        return self._kept.get(key)

    def path(self, key: str) -> Path:
        """Return the path of the copy of a file, whether it exists or not."""
        return Path(layout.path_of(self.folder, key))

    def renumber(self, key: str, device: int) -> None:
        """Store a new device number of the source in the attribute of a copy."""
        with self._lock:
            kept = self._kept.get(key)
            if kept is None:
                return
            identity = kept.identity._replace(device=device)
            with suppress(OSError):
                layout.renumber(self.path(key), identity)
                self._kept[key] = replace(kept, identity=identity)

    def read(self, key: str, now: float) -> None:
        """Note that a copy is read.

        Args:
            key: Key of the file.
            now: Current time in seconds since 1970.
        """
        with self._lock:
            kept = self._kept.get(key)
            if kept is not None:
                self._kept[key] = replace(kept, read_at=now)

    def dataset_of(self, key: str) -> str:
        """Return the data set of a file: its area, and its top-level folder in the source."""
        area, path = area_and_path(key)
        for source in self._sources:
            if path.startswith(f"{source}/"):
                rest = path[len(str(source)) :].split("/")
                return key_of(area, f"{source}/{rest[1]}" if len(rest) > 2 else str(source))
        return key_of(area, path)

    def reserve(
        self,
        key: str,
        size: int,
        sole: Callable[[Iterable[str]], frozenset[str]] = lambda keys: frozenset(),
        dropped: Callable[[str], None] = lambda key: None,
    ) -> bool:
        """Reserve room for a copy, with evictions if need be; return whether there is room.

        Each area is entitled to an equal share of the capacity, so that no user can evict all
        copies of others: a copy evicts those of its own area, and those of areas that have more
        than their share while its own has less.

        Args:
            key: Key of the file.
            size: Size of the copy in bytes.
            sole: Function that returns the keys of the copies that no other node has; called only
                if evictions are necessary.
            dropped: Callback that receives the key of each evicted copy.
        """
        if self.take_free(size):
            return True
        # One eviction at a time: two would count on the room of the same copies. The room is
        # reserved first: otherwise another caller could take it meanwhile.
        with self._evicting:
            with self._lock:
                self._reserved += size
                missing = self._used + self._reserved - self.capacity
                known = self._evictable(key, size)
            has_room = False
            try:
                soles = sole(known) if size <= self.capacity else frozenset()
                copies = [
                    StoredCopy(
                        each.key,
                        self.dataset_of(each.key),
                        each.size,
                        each.read_at,
                        is_sole=each.key in soles,
                    )
                    for each in known.values()
                ]
                for victim in to_evict(
                    copies,
                    self.dataset_of(key),
                    missing,
                    lambda each: layout.is_open(self.path(each)),
                ):
                    if self.drop(victim):
                        dropped(victim)
                has_room = self.free >= 0
            finally:  # Also if sole() has failed.
                if not has_room:
                    self.unreserve(size)
            return has_room

    def _evictable(self, key: str, size: int) -> dict[str, Kept]:
        """Return the copies that a new one may evict, by key."""
        own = area_and_path(key)[0]
        areas = {each: area_and_path(each)[0] for each in self._kept}
        used = Counter({own: size})
        for each, kept in self._kept.items():
            used[areas[each]] += kept.size
        share = self.capacity / len(used)
        victims = {own} | {area for area, total in used.items() if total > share >= used[own]}
        return {each: kept for each, kept in self._kept.items() if areas[each] in victims}

    def take_free(self, size: int) -> bool:
        """Reserve room for a copy if that needs no eviction; return whether it was reserved."""
        with self._lock:
            if self._used + self._reserved + size > self.capacity:
                return False
            self._reserved += size
            return True

    def unreserve(self, size: int) -> None:
        """Release reserved room."""
        with self._lock:
            self._reserved -= size

    def add(self, kept: Kept, reserved: int = 0) -> None:
        """Add a copy that has been published.

        Args:
            kept: Published copy.
            reserved: Bytes reserved for the copy, which are released at the same time. A later
                release would count the copy twice meanwhile, so that others would be refused.
        """
        with self._lock:
            self._reserved -= reserved
            before = self._kept.get(kept.key)
            self._used += kept.size - (before.size if before is not None else 0)
            self._kept[kept.key] = kept
        self.added(kept.key)

    def drop(self, key: str) -> bool:
        """Remove a copy; return whether there was one."""
        with self._lock:
            kept = self._kept.pop(key, None)
            if kept is not None:
                self._used -= kept.size
            unverified = self._unverified.pop(key, None)
        for path in (self.path(key), unverified):
            if path is not None:
                with suppress(OSError):
                    os.unlink(path)
        return kept is not None or unverified is not None

    def check(self, key: str) -> bool:
        """Return whether a copy matches its checksums."""
        return layout.is_good(self.path(key))

    def verify(self) -> Iterator[str]:
        """Verify all copies from before the last boot; yield the keys of the good ones.

        Good copies are used again. The others are removed.
        """
        for key, path in list(self._unverified.items()):
            with suppress(OSError):
                identity = layout.identity_of(path)
                if identity is None or not layout.is_good(path):
                    os.unlink(path)
                elif not os.path.lexists(self.path(key)):
                    self.make_folders(key)
                    os.rename(path, self.path(key))
                    self.add(Kept(key, identity, os.stat(self.path(key)).st_atime))
                    yield key
            self._unverified.pop(key, None)
        shutil.rmtree(self.folder / layout.UNVERIFIED, ignore_errors=True)

    def make_folders(self, key: str) -> None:
        """Create the folders for the copy of a file.

        Raises:
            OSError: The folders cannot be created.
        """
        area = area_and_path(key)[0]
        if area != PUBLIC:
            self.admit(int(area.partition("/")[2]))
        self.path(key).parent.mkdir(mode=_MODE, parents=True, exist_ok=True)

    def admit(self, uid: int) -> None:
        """Create the folders of one user's copies, also if a crash has left them incomplete.

        Raises:
            OSError: The folders cannot be created.
        """
        if uid in self._admitted:
            return
        private = self.folder / layout.PRIVATE / str(uid)
        growing = self.growing(f"{layout.PRIVATE}/{uid}")
        for folder in (private, growing):
            folder.mkdir(mode=_PRIVATE_MODE, exist_ok=True)
            if uid != os.geteuid():
                os.setxattr(folder, ACL_ATTRIBUTE, search_acl(uid))
        self._admitted.add(uid)

    def owner_and_mode(self, area: str) -> tuple[int | None, int]:
        """Return the owner of the copies of an area, None for this process's user, and their mode.

        Raises:
            OSError: The folders of the area cannot be created.
        """
        if area == PUBLIC:
            return None, _COPY_MODE
        uid = int(area.partition("/")[2])
        self.admit(uid)
        return uid if uid != os.geteuid() else None, _PRIVATE_COPY_MODE

    def growing(self, area: str) -> Path:
        """Return the folder of the partial copies of an area."""
        return Path(layout.growing_of(self.folder, area))

    def _set_aside(self, boot: str) -> None:
        """Move all copies out of the readers' sight after a reboot, and note the boot id."""
        file = self.folder / _BOOT_FILE
        before = file.read_text() if file.exists() else ""
        aside = self.folder / layout.UNVERIFIED
        if before and before != boot:
            aside.mkdir(mode=0o700, exist_ok=True)
            for name in (PUBLIC, layout.PRIVATE):
                if not (aside / name).exists():
                    os.rename(self.folder / name, aside / name)
                    (self.folder / name).mkdir(mode=_MODE)
        # Partial copies of a daemon that was killed.
        shutil.rmtree(self.folder / layout.GROWING, ignore_errors=True)
        for name in (PUBLIC, layout.PRIVATE):
            self.growing(name).mkdir(mode=_MODE, parents=True, exist_ok=True)
        file.write_text(boot)
        if aside.is_dir():
            for path in layout.files(aside):
                key = layout.key_at(aside, path)
                if key is not None:
                    self._unverified[key] = path

    def _load(self) -> None:
        for path in layout.files(self.folder):
            key = layout.key_at(self.folder, path)
            if key is None:
                continue
            with suppress(OSError):
                about, identity = os.lstat(path), layout.identity_of(path)
                if identity is not None and about.st_size == identity.size:
                    self.add(Kept(key, identity, about.st_atime))
                else:  # The file is not a copy, or is truncated.
                    os.unlink(path)


def below(copies: Iterable[_Copy], paths: Collection[str]) -> list[_Copy]:
    """Return the copies of files whose paths, or folders on them, are among some paths."""
    found = []
    for each in copies if paths else ():
        path = area_and_path(each.key)[1]
        while path and path not in paths:
            path = path.rpartition("/")[0]
        if path or "/" in paths:
            found.append(each)
    return found
