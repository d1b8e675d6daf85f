# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""The copies of a node, on its disk.

What is in the folders is what there is: nothing else is written down, so nothing can disagree
with it after a crash. Methods block on the disk; call them in a thread.
"""

from __future__ import annotations

import logging
import os
import shutil
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from tf_malleable.tier.node_messages import area_and_path, key_of
from tf_malleable.tier.protocol import Identity
from tf_malleable.tier.store import layout
from tf_malleable.tier.store.cache_eviction import StoredCopy, to_evict
from tf_malleable.tier.store.disk import files, is_at, is_open
from tf_malleable.tier.store.source_version import SourceVersion
from tf_malleable.tier.store.tenancy import ACL_ATTRIBUTE, PUBLIC, search_acl

_BOOT: Final = Path("/proc/sys/kernel/random/boot_id")
_BOOT_FILE: Final = "boot-id"
_FREE_SHARE: Final = 0.9
_MODE: Final = 0o755
_PRIVATE_MODE: Final = 0o700

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Kept:
    """A complete copy.

    Attributes:
        key: Of the file.
        identity: Of the file in the source.
        read_at: When it was read last, as far as is known: seconds since 1970.
    """

    key: str
    identity: Identity
    read_at: float

    @property
    def size(self) -> int:
        """Its bytes."""
        return self.identity.size

    @property
    def version(self) -> SourceVersion:
        """Of the source."""
        return SourceVersion.of_identity(self.identity)


class CopyStore:
    """The complete copies, and the room that there is. Thread-safe."""

    def __init__(
        self,
        folder: Path,
        sources: tuple[Path, ...],
        capacity: int | None,
        boot_id: str | None = None,
    ) -> None:
        """Prepare the folders, and look at what is there.

        Args:
            folder: Of the store.
            sources: The folders whose files are copied.
            capacity: Bytes that copies may take; None for nine tenths of what is free.
            boot_id: Of this start of the machine, in tests.

        Raises:
            OSError: The folder cannot be used.
        """
        self.folder = folder
        self._sources = sources
        self._lock = threading.RLock()
        self._evicting = threading.Lock()
        self._kept: dict[str, Kept] = {}
        self._unverified: dict[str, Path] = {}
        self._used = self._reserved = 0
        for name in (PUBLIC, layout.PRIVATE):
            (folder / name).mkdir(mode=_MODE, parents=True, exist_ok=True)
        self._set_aside(boot_id or _BOOT.read_text().strip())
        self._load()
        free = shutil.disk_usage(folder).free
        self.capacity = int((free + self._used) * _FREE_SHARE) if capacity is None else capacity

    @property
    def used(self) -> int:
        """Bytes that copies take, and those that grow will take."""
        with self._lock:
            return self._used + self._reserved

    @property
    def unverified(self) -> int:
        """How many copies are from before the last start of the machine."""
        return len(self._unverified)

    def __len__(self) -> int:
        return len(self._kept)

    @property
    def free(self) -> int:
        """Bytes for which nothing must go."""
        return self.capacity - self.used

    def keys(self) -> dict[str, str]:
        """Return the keys of all complete copies, with their versions."""
        with self._lock:
            return {key: kept.version.encode() for key, kept in self._kept.items()}

    def kept(self) -> list[Kept]:
        """Return all complete copies."""
        with self._lock:
            return list(self._kept.values())

    def get(self, key: str) -> Kept | None:
        """Return the complete copy of a file, if there is one."""
        return self._kept.get(key)

    def path(self, key: str) -> Path:
        """Return where the copy of a file is, or would be."""
        return layout.path_of(self.folder, key)

    def below(self, path: str) -> list[Kept]:
        """Return the copies of a file, or of all files in a folder, of whatever area."""
        return [each for each in self.kept() if is_at(area_and_path(each.key)[1], path)]

    def renumber(self, key: str, device: int) -> None:
        """Write beside a copy that the source has another device number."""
        with self._lock:
            kept = self._kept.get(key)
            if kept is None:
                return
            identity = kept.identity._replace(device=device)
            with suppress(OSError):
                layout.renumber(self.path(key), identity)
                self._kept[key] = replace(kept, identity=identity)

    def read(self, key: str, now: float) -> None:
        """Note that a copy is read."""
        with self._lock:
            kept = self._kept.get(key)
            if kept is not None:
                self._kept[key] = replace(kept, read_at=now)

    def dataset_of(self, key: str) -> str:
        """Return the data set that a file is of: its area, and the folder below the source."""
        area, path = area_and_path(key)
        for source in self._sources:
            if is_at(path, str(source)):
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
        """Make room for a copy and keep it; returns whether there is room.

        Args:
            key: Of the file.
            size: Of its copy.
            sole: Returns those copies that no other node has; asked only if some must go.
            dropped: Is told the key of each copy that went.
        """
        if self.take_free(size):
            return True
        # One at a time, or two would count on the room of the same copies; and kept at once, or
        # somebody who comes meanwhile would take it.
        with self._evicting:
            with self._lock:
                self._reserved += size
                missing = self._used + self._reserved - self.capacity
                known = dict(self._kept)
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
                for victim in self._choose(copies, self.dataset_of(key), missing):
                    if self.drop(victim):
                        dropped(victim)
                has_room = self.free >= 0
            finally:  # Also if nobody could say which are the only ones.
                if not has_room:
                    self.unreserve(size)
            return has_room

    def take_free(self, size: int) -> bool:
        """Keep room for a copy if nothing must go for it; returns whether that was so."""
        with self._lock:
            if self._used + self._reserved + size > self.capacity:
                return False
            self._reserved += size
            return True

    def unreserve(self, size: int) -> None:
        """Give back room that was kept."""
        with self._lock:
            self._reserved -= size

    def add(self, kept: Kept, reserved: int = 0) -> None:
        """Note a copy that has been published.

        Args:
            kept: The copy.
            reserved: The room that was kept for it. Were it given back later, the copy would count
                twice meanwhile, and another one be refused.
        """
        with self._lock:
            self._reserved -= reserved
            before = self._kept.get(kept.key)
            self._used += kept.size - (before.size if before is not None else 0)
            self._kept[kept.key] = kept

    def drop(self, key: str) -> bool:
        """Remove a copy; returns whether there was one."""
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
        """Compare a copy with its checksums; returns whether they agree."""
        return layout.is_good(self.path(key))

    def verify(self) -> Iterator[str]:
        """Compare all copies from before the last start; yields the keys of the good ones.

        Those are used again. The others are removed.
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
        """Make the folders that the copy of a file lies in.

        Raises:
            OSError: They cannot be made.
        """
        area = area_and_path(key)[0]
        if area != PUBLIC:
            self.admit(int(area.partition("/")[2]))
        self.path(key).parent.mkdir(mode=_MODE, parents=True, exist_ok=True)

    def admit(self, uid: int) -> None:
        """Make the folders of one user's copies, or what is missing of them after a sudden end.

        Raises:
            OSError: They cannot be made.
        """
        private = self.folder / layout.PRIVATE / str(uid)
        growing = self.growing(f"{layout.PRIVATE}/{uid}")
        with suppress(FileNotFoundError):
            # Its owner is the last step below.
            if growing.stat().st_uid == uid and private.is_dir():
                return
        for folder in (private, growing):
            folder.mkdir(mode=_PRIVATE_MODE, exist_ok=True)
        if uid != os.geteuid():
            os.setxattr(private, ACL_ATTRIBUTE, search_acl(uid))
            os.chown(growing, uid, -1)

    def growing(self, area: str) -> Path:
        """Return the folder of the growing copies of an area."""
        return self.folder / layout.GROWING / area

    def _choose(self, copies: list[StoredCopy], dataset: str, missing: int) -> tuple[str, ...]:
        """Return what is to go, none of it open."""
        while True:
            chosen = to_evict(copies, dataset, missing)
            used = {key for key in chosen if is_open(self.path(key))}
            if not used:
                return chosen
            copies = [replace(each, is_open=True) if each.path in used else each for each in copies]

    def _set_aside(self, boot_id: str) -> None:
        """After a restart of the machine, move all copies to where no reader finds them."""
        file = self.folder / _BOOT_FILE
        before = file.read_text() if file.exists() else ""
        aside = self.folder / layout.UNVERIFIED
        if before and before != boot_id:
            aside.mkdir(mode=0o700, exist_ok=True)
            for name in (PUBLIC, layout.PRIVATE):
                if not (aside / name).exists():
                    os.rename(self.folder / name, aside / name)
                    (self.folder / name).mkdir(mode=_MODE)
        # Parts of copies, of a daemon that was killed.
        shutil.rmtree(self.folder / layout.GROWING, ignore_errors=True)
        for name in (PUBLIC, layout.PRIVATE):
            self.growing(name).mkdir(mode=_MODE, parents=True, exist_ok=True)
        file.write_text(boot_id)
        if aside.is_dir():
            for path in files(aside):
                key = layout.key_at(aside, path)
                if key is not None:
                    self._unverified[key] = path

    def _load(self) -> None:
        for path in files(self.folder):
            key = layout.key_at(self.folder, path)
            if key is None:
                continue
            with suppress(OSError):
                about, identity = os.lstat(path), layout.identity_of(path)
                if identity is not None and about.st_size == identity.size:
                    self.add(Kept(key, identity, about.st_atime))
                else:  # Somebody else's, or cut off.
                    os.unlink(path)
