# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Revalidation: periodic comparison of the copies with their files in the source."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Callable, Iterable
from typing import Final

from tf_malleable.tier.node_messages import area_and_path
from tf_malleable.tier.service import TierService
from tf_malleable.tier.store.copy_store import CopyStore, Kept

PERIOD_SECONDS: Final = 50.0
LEAST_PAUSE_SECONDS: Final = 5.0
VALID_SECONDS: Final = 60.0
_AT_A_TIME: Final = 256


class Revalidation:
    """Periodic comparison of all copies with the source."""

    def __init__(self, service: TierService) -> None:
        self._service = service
        self._compared_at = -VALID_SECONDS

    def is_valid(self, now: float) -> bool:
        """Return whether every copy was compared with the source within the last minute.

        Args:
            now: Current time of the monotonic clock, in seconds.
        """
        return now - self._compared_at < VALID_SECONDS

    async def once(self) -> None:
        """Compare all copies, and drop those whose source files have changed or are gone."""
        service, began = self._service, time.monotonic()
        kept = service.store.kept()
        for start in range(0, len(kept), _AT_A_TIME):
            some = kept[start : start + _AT_A_TIME]
            changed = await service.in_thread(lambda some=some: compare(service.store, some))  # type: ignore[misc]
            service.counters.metadata += len(some)
            for key in changed:
                service.forget(key)
        self._compared_at = began

    async def run(self) -> None:
        """Compare all copies about once a minute, until cancelled.

        The pause is short enough for the next comparison to end within VALID_SECONDS.
        """
        while True:
            began = time.monotonic()
            await self.once()
            took = time.monotonic() - began
            await asyncio.sleep(max(LEAST_PAUSE_SECONDS, PERIOD_SECONDS - 2 * took))


def compare(
    store: CopyStore, kept: Iterable[Kept], look: Callable[[str], os.stat_result] = os.lstat
) -> list[str]:
    """Return the keys of the copies that differ from the files of their names in the source.

    If only the device number of the source has changed, as after a remount, the new one is
    written to the copy's extended attribute.
    """
    found = []
    for each in kept:
        path = area_and_path(each.key)[1]
        try:
            about = look(path)
        except FileNotFoundError:
            found.append(each.key)
            continue
        except OSError:
            # The source does not answer, or not to this user: that says nothing about the file.
            continue
        if not each.identity.is_same(about):
            found.append(each.key)
        elif each.identity.device != about.st_dev:
            store.renumber(each.key, about.st_dev)
    return found
