# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Scrub: rereads every copy from the disk once per period, and drops those that have rotted.

A reader opens a copy as a plain file, so nobody verifies what it reads: the checksum of a whole
block of a mebibyte, for each first read of a few bytes, would cost many times the read itself, in
each process anew. After a reboot, all copies are verified before they are used; a scrub finds what
rots while the machine runs.

The bytes come from the disk, past the page cache, which may hold the right ones still, and stays
as it is for readers. The thread has the lowest I/O and CPU priority.
"""

from __future__ import annotations

import asyncio
import ctypes
import errno
import logging
import os
import random
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Final

from tf_malleable.tier.service import TierService
from tf_malleable.tier.store import layout

_NICE: Final = 19
_IOPRIO_SET: Final = 251  # On x86-64.
_IOPRIO_WHO_PROCESS: Final = 1
_IOPRIO_CLASS_IDLE: Final = 3 << 13
_LOOK_SECONDS: Final = 60.0
# Each file costs this much beside its bytes.
_FILE_BYTES: Final = 64 << 10
# Of the disk, or of a file system that has checksums of its own.
_ROT: Final = (errno.EIO, errno.EBADMSG, errno.EUCLEAN)

_log = logging.getLogger(__name__)


class Scrub:
    """Periodic verification of all copies."""

    def __init__(self, service: TierService, period: float) -> None:
        """Create a scrub.

        Args:
            service: Service of the tier.
            period: Time in seconds in which each copy is verified once.
        """
        self._service, self._period = service, period
        self._thread = ThreadPoolExecutor(1, "tier-scrub", _step_back)
        self._stopping = threading.Event()
        self._pace = 0.0

    async def run(self) -> None:
        """Verify all copies again and again, until cancelled."""
        try:
            while True:
                await self.once()
        finally:
            self._stopping.set()

    async def once(self) -> None:
        """Verify all copies in the time of a period, in a random order.

        So that each gets its turn also if the daemon never runs for a whole period.
        """
        service, loop = self._service, asyncio.get_running_loop()
        kept = service.store.kept()
        random.shuffle(kept)
        if not kept:
            await asyncio.sleep(min(self._period, _LOOK_SECONDS))
            return
        self._pace = self._period / sum(each.size + _FILE_BYTES for each in kept)
        for each in kept:
            path = service.store.path(each.key)
            is_rotten = await loop.run_in_executor(self._thread, is_rotten_at, path, self._rest)
            service.counters.scrubbed_bytes += each.size
            if is_rotten:
                _log.warning("the copy %s has rotted on the disk", path)
                service.counters.rotten += 1
                service.forget(each.key)
            await asyncio.sleep(_FILE_BYTES * self._pace)

    def _rest(self, count: int) -> None:
        """Wait in the thread after so many bytes, as not all disks have priorities.

        Raises:
            InterruptedError: The scrub ends.
        """
        if self._stopping.wait(count * self._pace):
            raise InterruptedError


def is_rotten_at(path: Path, rest: Callable[[int], None] = lambda count: None) -> bool:
    """Return whether the bytes on the disk differ from the checksums of a copy.

    A copy that is gone, or that cannot be opened for another reason, is not rotten.

    Args:
        path: Path of the copy.
        rest: Function that is called after each piece with its bytes; an OSError ends it.
    """
    try:
        descriptor = _open(path)
    except OSError as error:
        return error.errno in _ROT
    try:
        identity = layout.identity_of(descriptor)
        # Without one, its owner has dropped it.
        return identity is not None and not layout.matches(descriptor, identity, rest)
    except OSError as error:
        return error.errno in _ROT
    finally:
        os.close(descriptor)


def _open(path: Path) -> int:
    """Open a copy, past the page cache if the file system can do that, and tmpfs need not.

    Raises:
        OSError: The copy cannot be opened.
    """
    flags = os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK
    try:
        return os.open(path, flags | os.O_DIRECT)
    except OSError as error:
        if error.errno != errno.EINVAL:
            raise
        return os.open(path, flags)


def _step_back() -> None:
    os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), _NICE)
    ctypes.CDLL(None).syscall(_IOPRIO_SET, _IOPRIO_WHO_PROCESS, 0, _IOPRIO_CLASS_IDLE)
