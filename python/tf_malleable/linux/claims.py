# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Which CPUs are shared out already: one controller for each set of CPUs on a host.

A controller claims its CPUs by a file that it keeps locked. The kernel releases the lock
with its holder, so a claim without a lock was left behind by a killed controller. Root's
claims are in a folder below /run that only root can change; those of other users are in one
below /tmp, where all can add their own. Everybody can read both.

Whoever may read a file may lock it, too. So a claim counts only while the process that it
names runs as well; otherwise any user could keep alive the claim of a controller that has
ended. The user is that of the file, not what the file says.
"""

from __future__ import annotations

import errno
import fcntl
import os
import secrets
import stat
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from typing import Final

from tf_malleable.linux import procfs
from tf_malleable.linux.users import user_name
from tf_malleable.model import Cpuset, format_cpuset, parse_cpuset

VARIABLE: Final = "TF_MALLEABLE_CLAIMS"
"""A folder to use instead of the host's; empty for no claims at all."""

_ROOTS_FOLDER: Final = "/run/tf_malleable-claims"
_SHARED_FOLDER: Final = "/tmp/tf_malleable-claims"

_LONGEST = 1024
# Of more files than these, somebody has put most there to slow down others.
_MOST = 64
_ATTEMPTS = 20
_ATTEMPT_SECONDS = 0.01
_READ_FLAGS = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


class ClaimError(Exception):
    """Another controller shares out some of these CPUs; the message is one sentence."""


@dataclass(frozen=True)
class Claimed:
    """What a running controller has claimed.

    Attributes:
        uid: User id of the controller.
        pid: Its pid.
        cpus: The CPUs it shares out.
        socket: Where it listens.
    """

    uid: int
    pid: int
    cpus: Cpuset
    socket: str


class Claim:
    """A claim on CPUs. Not thread-safe.

    Attributes:
        problem: Why others cannot see the claim, or which other controllers it ignores; one
            sentence, None if there is nothing to say.
    """

    def __init__(self, cpus: Cpuset, socket: str) -> None:
        """Claim these CPUs.

        Args:
            cpus: The CPUs to share out.
            socket: Where the controller listens.

        Raises:
            ClaimError: A controller of root or, unless we are root, of any user has
                claimed some of them.
        """
        self.problem: str | None = None
        self._socket = socket
        self._file: int | None = None
        self._folder: int | None = None
        self._name = ""
        folders = [folder for path in _paths() if (folder := _open_folder(path)) is not None]
        try:
            # Before reading the others': of two that start at once, at least one sees the other's.
            self._write(folders, cpus)
            others = [other for folder in folders for other in self._others(folder)]
        finally:
            for folder in folders:
                if folder != self._folder:
                    os.close(folder)
        try:
            self._check([other for other in others if other.cpus & cpus], cpus)
        except ClaimError:
            self.close()
            raise

    def update(self, cpus: Cpuset) -> None:
        """Claim these CPUs instead, whoever has claimed them."""
        if self._file is not None:
            with suppress(OSError):
                self._put(self._file, cpus)

    def close(self) -> None:
        """Give the claim up."""
        if self._folder is not None:
            with suppress(OSError):
                os.unlink(self._name, dir_fd=self._folder)
            os.close(self._folder)
        if self._file is not None:
            os.close(self._file)
        self._folder = self._file = None

    def _put(self, file: int, cpus: Cpuset) -> None:
        text = _text(cpus, self._socket)
        os.pwrite(file, text, 0)
        os.ftruncate(file, len(text))

    def _write(self, folders: list[int], cpus: Cpuset) -> None:
        for folder in folders:
            name = f"{os.geteuid()}-{secrets.token_hex(8)}"
            try:
                self._file = _create(folder, name)
            except OSError:
                continue
            self._folder, self._name = folder, name
            try:
                self._put(self._file, cpus)
            except OSError:
                break  # The file system is full.
            return
        if _paths():
            self.problem = (
                f"other controllers cannot see that CPUs {format_cpuset(cpus)} are shared out:"
                f" cannot write a file in {' or '.join(_paths())}"
            )

    def _others(self, folder: int) -> Iterator[Claimed]:
        with suppress(OSError):
            for name in os.listdir(folder)[:_MOST]:
                if folder == self._folder and name == self._name:
                    continue
                claimed = _read(folder, name)
                if claimed is not None:
                    yield claimed

    def _check(self, overlapping: list[Claimed], cpus: Cpuset) -> None:
        for other in overlapping:
            shared = format_cpuset(other.cpus & cpus)
            who = f"a controller of {user_name(other.uid)} (pid {other.pid})"
            # No user can keep root from sharing out the machine.
            if other.uid != 0 and os.geteuid() == 0:
                self.problem = f"{who} shares out CPUs {shared}, too, until it is stopped"
                continue
            raise ClaimError(
                f"{who} already shares out CPUs {shared} and listens at {other.socket}:"
                " use that one, or choose other CPUs with --cpus"
            )


def _paths() -> list[str]:
    """Return the folders of claims; a controller's own is in the first that it can change."""
    chosen = os.environ.get(VARIABLE)
    if chosen is not None:
        return [chosen] if chosen else []
    return [_ROOTS_FOLDER, _SHARED_FOLDER]


def _open_folder(path: str) -> int | None:
    """Return a descriptor of a folder of claims, made if need be; None if there is none."""
    with suppress(OSError):
        os.mkdir(path, 0o700)
        # All may read it; only that below /tmp may all add to, and nobody remove others'.
        os.chmod(path, 0o755 if path == _ROOTS_FOLDER else 0o1777)
    try:
        folder = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError:
        return None
    if path == _ROOTS_FOLDER and os.geteuid() == 0:
        # Where systemd has made it, for root only.
        with suppress(OSError):
            os.fchmod(folder, 0o755)
    return folder


def _create(folder: int, name: str) -> int:
    """Return the descriptor of a new file that all can read and that we have locked."""
    flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    file = os.open(name, flags, 0o600, dir_fd=folder)
    try:
        for _ in range(_ATTEMPTS):
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:  # Another controller looks whether it is locked.
                time.sleep(_ATTEMPT_SECONDS)
        else:
            raise BlockingIOError(errno.EAGAIN, os.strerror(errno.EAGAIN))
        # Not before: whoever can open it can lock it.
        os.fchmod(file, 0o644)
    except BaseException:
        os.close(file)
        with suppress(OSError):
            os.unlink(name, dir_fd=folder)
        raise
    return file


def _read(folder: int, name: str) -> Claimed | None:
    """Return what a file claims; None if it claims nothing, or was left behind."""
    try:
        file = os.open(name, _READ_FLAGS, dir_fd=folder)
    except OSError:
        return None
    try:
        about = os.fstat(file)
        if not stat.S_ISREG(about.st_mode):
            return None
        content = os.pread(file, _LONGEST, 0)
        if _is_locked(file):
            return _parsed(content, about.st_uid)
        # A file is locked before anything is written to it.
        if content and os.geteuid() in (0, about.st_uid):
            os.unlink(name, dir_fd=folder)
    except OSError:
        pass
    finally:
        os.close(file)
    return None


def _is_locked(file: int) -> bool:
    try:
        fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    fcntl.flock(file, fcntl.LOCK_UN)
    return False


def _text(cpus: Cpuset, socket: str) -> bytes:
    me = procfs.identify(os.getpid())
    start = 0 if me is None else me.start
    lines = [
        f"pid {os.getpid()}",
        f"start {start}",
        f"user {user_name(os.geteuid())}",
        f"cpus {format_cpuset(cpus)}",
        f"socket {socket}",
    ]
    return "".join(f"{line}\n" for line in lines).encode(errors="replace")


def _parsed(content: bytes, uid: int) -> Claimed | None:
    """Return a claim whose process runs; None if it has ended, or the content makes no sense."""
    text = content.decode(errors="replace")
    fields = {key: value for key, _, value in map(_split, text.splitlines())}
    try:
        pid, start = int(fields["pid"]), int(fields["start"])
        cpus, socket = parse_cpuset(fields["cpus"]), fields["socket"]
    except (KeyError, ValueError):
        return None
    if not socket.isprintable() or not _runs(pid, start):
        return None
    return Claimed(uid, pid, cpus, socket)


def _split(line: str) -> tuple[str, str, str]:
    return line.partition(" ")


def _runs(pid: int, start: int) -> bool:
    """Return whether a process runs, even where /proc hides those of other users."""
    if not 0 < pid < 1 << 31:
        return False
    now = procfs.read_stat(pid)
    if now is not None:
        return now.start == start and now.state not in "ZX"
    try:
        os.kill(pid, 0)
    except PermissionError:
        return True
    except OSError:
        return False
    return True
