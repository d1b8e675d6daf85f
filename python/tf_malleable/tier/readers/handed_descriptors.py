# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Handed descriptors: what readers pass with their messages, checked before any use, and closed.

A reader may pass any descriptor: of a folder, a device, a socket, one without access (O_PATH). No
call here waits for what is behind one.
"""

from __future__ import annotations

import fcntl
import os
import socket
import stat
import threading
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Final

from tf_malleable.linux.file_status import FileStatus, cached_status
from tf_malleable.tier.protocol import MessageKind, ProtocolError

MOST_DESCRIPTORS: Final = 2
"""Maximum number of descriptors with one message."""
_READABLE: Final = (os.O_RDONLY, os.O_RDWR)
_BOTH: Final = (os.O_RDWR,)
# By kind: the fewest descriptors, and the access modes that each of them may have.
_FILES: Final[dict[MessageKind, tuple[int, tuple[tuple[int, ...], ...]]]] = {
    MessageKind.READING: (2, (_READABLE, _BOTH)),
    MessageKind.WHOLE: (1, (_READABLE,)),
    MessageKind.UNSEEN: (0, (_READABLE,)),
}


def check_files(kind: MessageKind, descriptors: Sequence[int]) -> list[FileStatus]:
    """Check that the descriptors are as many files as belong to a message, with their access.

    Returns:
        The status of each file.

    Raises:
        ProtocolError: They are not.
    """
    least, modes = _FILES.get(kind, (0, ()))
    if not least <= len(descriptors) <= len(modes):
        raise ProtocolError(f"{len(descriptors)} descriptors do not belong to such a message")
    found = []
    for descriptor, allowed in zip(descriptors, modes, strict=False):
        flags = fcntl.fcntl(descriptor, fcntl.F_GETFL)
        # First, as it asks no file system.
        if flags & os.O_PATH or flags & os.O_ACCMODE not in allowed:
            raise ProtocolError("a descriptor of a copy does not permit what a copy needs")
        try:
            about = cached_status(descriptor)
        except OSError as error:  # Such as in a user's FUSE, which answers nobody else.
            raise ProtocolError(f"a file cannot be looked at: {error.strerror}") from None
        if not stat.S_ISREG(about.st_mode):
            raise ProtocolError("the descriptors of a copy must be of files")
        found.append(about)
    if kind is MessageKind.READING:
        check_map(descriptors[1])
    return found


def check_map(descriptor: int) -> None:
    """Check that a descriptor is of a file in memory, whose reads never wait for anybody.

    Raises:
        ProtocolError: It is of something else.
    """
    try:
        fcntl.fcntl(descriptor, fcntl.F_GET_SEALS)
    except OSError:
        raise ProtocolError("the map of a copy must be a memfd") from None


def reply_socket(descriptors: Sequence[int]) -> socket.socket:
    """Return the socket to which a lookup is answered; it takes over the descriptor.

    Raises:
        ProtocolError: There is not exactly one descriptor, or it is no Unix stream socket. To
            send to another kind may block, as may closing it.
    """
    if len(descriptors) != 1:
        raise ProtocolError("one socket belongs to a question")
    try:
        found = socket.socket(fileno=descriptors[0])
    except OSError:
        raise ProtocolError("what is to be answered is no socket") from None
    if (found.family, found.type) != (socket.AF_UNIX, socket.SOCK_STREAM):
        found.detach()
        raise ProtocolError("a question is answered to a Unix stream socket")
    return found


class Disposal:
    """Closes refused descriptors in a thread, as close(2) of some waits: of a socket with
    SO_LINGER, or of a file in a user's FUSE.

    There is one for each user, so that nobody waits for another one's descriptors.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._waiting: deque[tuple[list[int], Callable[[], None]]] = deque()
        self._is_running = False

    def close(self, descriptors: list[int], closed: Callable[[], None]) -> None:
        """Close descriptors.

        Args:
            descriptors: Descriptors of any kind.
            closed: Callback in the thread, after they were closed.
        """
        with self._lock:
            self._waiting.append((descriptors, closed))
            if self._is_running:
                return
            self._is_running = True
        # Of its own, and a daemon: an executor would wait for it at the end.
        threading.Thread(target=self._run, name="tier-closing", daemon=True).start()

    def _run(self) -> None:
        while True:
            with self._lock:
                if not self._waiting:
                    self._is_running = False
                    return
                descriptors, closed = self._waiting.popleft()
            for each in descriptors:
                with suppress(OSError):  # The kernel has closed it all the same.
                    os.close(each)
            closed()
