# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Revalidation: periodic comparison of the copies with their files in the source."""

from __future__ import annotations

import asyncio
import math
import os
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path
from typing import Final

from tf_malleable.tier.node_messages import area_and_path
from tf_malleable.tier.object_names import is_object
from tf_malleable.tier.service import TierService
from tf_malleable.tier.source_watch import SourceWatch
from tf_malleable.tier.store.copy_store import CopyStore, Kept, below
from tf_malleable.tier.store.tenancy import PUBLIC, is_everybodys, private_area

PERIOD_SECONDS: Final = 60.0
"""Time between two comparisons, if readers look at the source themselves."""
_LEAST_PAUSE_SECONDS: Final = 1.0
_AT_A_TIME: Final = 256


class Revalidation:
    """Periodic comparison of all copies with the source."""

    def __init__(self, service: TierService, staleness: float) -> None:
        """Create a comparison that has not begun.

        Args:
            service: Service of the tier.
            staleness: Seconds for which a comparison is good enough; 0 if readers look at the
                source themselves.
        """
        self._service, self._staleness = service, staleness
        self._compared_at = -math.inf

    def is_valid(self, now: float) -> bool:
        """Return whether readers may use copies: the last comparison is good enough.

        Args:
            now: Current time of the monotonic clock, in seconds.
        """
        return not self._staleness or now - self._compared_at < self._staleness

    async def once(self) -> None:
        """Compare all copies, and drop those whose source files have changed or are gone."""
        began = time.monotonic()
        await self._compare(self._service.store.kept())
        self._compared_at = began

    def soon(self, paths: frozenset[str], closed: frozenset[str]) -> None:
        """Compare some copies in the background.

        Args:
            paths: Paths of files, or of folders all of whose files are meant; "/" for all.
            closed: Folders whose permissions may have changed. Private copies of files in them are
                dropped, as only the kernel knows whether their users may enter the folders.
        """
        self._service.in_background(self._compare_below(paths, closed))

    def soon_again(self, key: str, was_closed: bool) -> None:
        """Compare a copy in the background that was permitted before its folders were watched.

        Args:
            key: Key of the file.
            was_closed: Whether one of its folders may have been closed since: then a private copy
                is dropped, as in soon().
        """
        kept = self._service.store.get(key)
        if kept is None:
            return
        if was_closed and _is_anothers(key):
            self._service.forget(key)
        else:
            self._service.in_background(self._compare([kept]))

    async def _compare_below(self, paths: frozenset[str], closed: frozenset[str]) -> None:
        service = self._service
        kept = await service.in_thread(lambda: below(service.store.kept(), paths))
        lost = await service.in_thread(lambda: below(kept, closed))
        for each in lost:
            if _is_anothers(each.key):
                service.forget(each.key)
        for copy in below(service.growing.values(), closed):
            if _is_anothers(copy.key):
                service.give_up(copy, "a folder on its path may have been closed to its user")
        await self._compare(kept)

    async def _compare(self, kept: list[Kept]) -> None:
        service = self._service
        for start in range(0, len(kept), _AT_A_TIME):
            some = kept[start : start + _AT_A_TIME]
            changed = await service.in_thread(lambda some=some: compare(service.store, some))  # type: ignore[misc]
            service.counters.metadata += len(some)
            for key in changed:
                service.forget(key)

    async def run(self) -> None:
        """Compare all copies again and again, until cancelled.

        The pause is short enough for the next comparison to end before this one is too old.
        """
        period = 0.8 * self._staleness or PERIOD_SECONDS
        while True:
            began = time.monotonic()
            await self.once()
            took = time.monotonic() - began
            await asyncio.sleep(max(_LEAST_PAUSE_SECONDS, period - 2 * took))


def watch_copies(service: TierService, revalidation: Revalidation) -> SourceWatch:
    """Drop copies soon after their files are changed, or closed to their users.

    Needs a running event loop.

    Raises:
        OSError: The system provides no inotify.
    """
    store, loop = service.store, asyncio.get_running_loop()
    watch = SourceWatch(revalidation.soon)

    def added(key: str) -> None:
        path = area_and_path(key)[1]
        is_new, was_closed = watch.watch(path), watch.was_closed(path)
        if is_new or was_closed:
            with suppress(RuntimeError):  # The loop has ended.
                loop.call_soon_threadsafe(revalidation.soon_again, key, was_closed)

    service.begun = lambda key: watch.watch(area_and_path(key)[1])
    store.added = added
    for key in list(store.keys()):  # All of which are compared first of all.
        watch.watch(area_and_path(key)[1])
    return watch


def _is_anothers(key: str) -> bool:
    """Return whether a copy is private to a user who is not this process's."""
    return area_and_path(key)[0] not in (PUBLIC, private_area(os.geteuid()))


def compare(
    store: CopyStore, kept: Iterable[Kept], look: Callable[[str], os.stat_result] = os.lstat
) -> list[str]:
    """Return the keys of the copies that differ from the files of their names in the source.

    These are also those of files that others may not read any more.

    If only the device number of the source has changed, as after a remount, the new one is
    written to the copy's extended attribute.
    """
    found = []
    for each in kept:
        area, path = area_and_path(each.key)
        if is_object(path):  # It is compared at each read.
            continue
        try:
            about = look(path)
        except FileNotFoundError:
            found.append(each.key)
            continue
        except OSError:
            # The source does not answer, or not to this user: that says nothing about the file.
            continue
        is_closed = area == PUBLIC and not is_everybodys(Path(path), about)
        if is_closed or not each.identity.is_same(about):
            found.append(each.key)
        elif each.identity.device != about.st_dev:
            store.renumber(each.key, about.st_dev)
    return found
