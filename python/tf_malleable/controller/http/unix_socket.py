# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Unix socket of the controller: for its owner or a group, with one controller per socket.

The directory controls who may connect: only its owner, and the group if there is one, may
enter it; only the owner may create files in it, or change where its path leads. (A socket's own
permissions can be set only after it exists.) A lock on a file next to the socket ensures that
only one controller listens. The kernel releases the lock when its holder ends, so a socket
without a lock was left behind by a killed controller.
"""

from __future__ import annotations

import errno
import fcntl
import os
import socket
import stat
from contextlib import suppress
from pathlib import Path

from tf_malleable.linux.trusted_folder import TrustedFolder

_LONGEST = 107  # Bytes of sun_path in unix(7), without the terminating zero.


class ListenError(Exception):
    """Cannot listen on a socket; the message is one sentence, with the remedy."""


class UnixListener:
    """Listening socket, and the lock that makes it the only one at its path.

    Attributes:
        path: Path of the socket.
        socket: Listening socket.
    """

    def __init__(self, path: Path, group: int | None = None) -> None:
        """Start listening.

        Args:
            path: Path to listen at.
            group: Id of the group that may connect; None for only the owner and root.

        Raises:
            ListenError: Another controller listens there, or the path is unsuitable.
        """
        self.path = Path(os.path.abspath(path))
        length = len(os.fsencode(self.path))
        if length > _LONGEST:
            raise ListenError(
                f"a socket's path may have at most {_LONGEST} bytes, and {self.path} has {length}:"
                " choose a shorter one with --socket"
            )
        # From here on, nobody else can change what the path leads to.
        with _directory(self.path.parent, group) as folder:
            self._lock = _lock(folder, self.path)
        try:
            _remove_stale(self.path)
            self.socket = _bind(self.path, group)
        except BaseException:
            os.close(self._lock)
            raise
        self._inode = os.stat(self.path).st_ino

    def close(self) -> None:
        """Remove the socket and release the lock.

        The lock file stays: if it were removed, two controllers could each hold a lock
        on a file of this name.
        """
        self.socket.close()
        with suppress(OSError):
            if os.lstat(self.path).st_ino == self._inode:
                os.unlink(self.path)
        with suppress(OSError):
            os.ftruncate(self._lock, 0)
        os.close(self._lock)


def _directory(directory: Path, group: int | None) -> TrustedFolder:
    """Open the socket's directory, created if missing, which only its owner and a group may enter.

    Raises:
        ListenError: The directory cannot be created, or others may enter or change it.
    """
    try:
        folder = TrustedFolder(directory, 0o700, sticky=True)
    except OSError as error:
        raise ListenError(
            f"cannot use the socket's directory {directory}: {error.strerror}: choose another with"
            " --socket"
        ) from None
    try:
        _check_entry(folder, group)
    except BaseException:
        folder.close()
        raise
    return folder


def _check_entry(folder: TrustedFolder, group: int | None) -> None:
    directory, about = folder.path, os.fstat(folder.descriptor)
    mode = stat.S_IMODE(about.st_mode)
    if about.st_uid != os.geteuid():
        raise ListenError(
            f"the socket's directory {directory} belongs to another user:"
            " choose one of your own with --socket"
        )
    if group is not None and not mode & 0o077:
        _open_to_group(directory, group, 0o750)
    elif group is not None and (about.st_gid != group or mode & 0o027):
        raise ListenError(
            f"the socket's directory {directory} is not that group's, or others may enter or"
            f" change it (mode {mode:04o}): choose another with --socket,"
            f" or run chgrp {group} {directory}, and chmod 750 {directory}"
        )
    elif group is None and mode & 0o077:
        raise ListenError(
            f"the socket's directory {directory} is open to other users (mode"
            f" {mode:04o}): choose another with --socket, or run chmod 700 {directory}"
        )


def _open_to_group(path: Path, group: int, mode: int) -> None:
    try:
        os.chown(path, -1, group)
        os.chmod(path, mode)
    except OSError as error:
        raise ListenError(f"cannot give group {group} access to {path}: {error.strerror}") from None


def _lock(folder: TrustedFolder, path: Path) -> int:
    """Return a descriptor that holds the lock on a socket's path."""
    name = path.with_name(f"{path.name}.lock")
    try:
        lock = folder.open(name.name, os.O_RDWR | os.O_CREAT)
    except OSError as error:
        raise ListenError(f"cannot open the lock file {name}: {error.strerror}") from None
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        os.ftruncate(lock, 0)
        os.pwrite(lock, f"{os.getpid()}\n".encode(), 0)
    except BlockingIOError:
        pid = os.pread(lock, 32, 0).decode(errors="replace").strip()
        os.close(lock)
        who = f"a controller (pid {pid})" if pid else "a controller"
        raise ListenError(f"{who} already listens at {path}") from None
    except OSError as error:
        os.close(lock)
        raise ListenError(f"cannot write the lock file {name}: {error.strerror}") from None
    return lock


def _remove_stale(path: Path) -> None:
    """Remove a socket that a killed controller left behind."""
    try:
        about = os.lstat(path)
    except FileNotFoundError:
        return
    if not stat.S_ISSOCK(about.st_mode):
        raise ListenError(f"{path} exists and is not a socket: choose another with --socket")
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        probe.settimeout(1.0)
        code = probe.connect_ex(str(path))
    if code != errno.ECONNREFUSED:
        raise ListenError(f"another program listens at {path}: choose another with --socket")
    os.unlink(path)


def _bind(path: Path, group: int | None) -> socket.socket:
    listening = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_NONBLOCK)
    try:
        listening.bind(str(path))
        os.chmod(path, 0o600)
        if group is not None:
            _open_to_group(path, group, 0o660)
    except OSError as error:
        listening.close()
        raise ListenError(f"cannot create the socket {path}: {error.strerror}") from None
    return listening
