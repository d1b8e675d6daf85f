# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Claims on CPUs: at most one controller shares out each CPU of a host.

A controller claims its CPUs with a file that it keeps locked. The kernel releases the lock
when the holder ends, so a claim without a lock was left behind by a killed controller. Root's
claims are in a folder below /run that only root can change. Those of other users are in /tmp
itself: in a folder there, whoever created it could remove the claims of others. Every user can
read both.

A user with read access to a file can also lock it. So a claim counts only while the process
that it names runs as well; otherwise any user could keep alive the claim of a controller that
has ended. The user of a claim is the owner of the file, not the user that the file names.
"""

from __future__ import annotations

import errno
import fcntl
import os
import secrets
import stat
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from typing import Final

from tf_malleable.linux.processes import procfs
from tf_malleable.linux.processes.users import user_name
from tf_malleable.linux.trusted_folder import TrustedFolder
from tf_malleable.model import Cpuset, format_cpuset, parse_cpuset

VARIABLE: Final = "TF_MALLEABLE_CLAIMS"
"""Environment variable with the folder for claims instead of the host's; empty for no claims."""

_ROOTS_FOLDER: Final = "/run/tf_malleable-claims"
# A sticky folder, in which a user can remove only files of that user.
_SHARED_FOLDER: Final = "/tmp"
_PREFIX: Final = "tf_malleable-claim-"

_LONGEST = 1024
# More files of a user than this are only there to slow down other controllers.
_MOST = 64
_ATTEMPTS = 20
_ATTEMPT_SECONDS = 0.01
_READ_FLAGS = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


class ClaimError(Exception):
    """Another controller has claimed some of these CPUs; the message is one sentence."""


@dataclass(frozen=True)
class Claimed:
    """The claim of a running controller.

    Attributes:
        uid: User id of the controller.
        pid: Pid of the controller.
        cpus: CPUs that the controller shares out.
        socket: Path of the controller's socket.
    """

    uid: int
    pid: int
    cpus: Cpuset
    socket: str


class Claim:
    """A claim on CPUs. Not thread-safe.

    Attributes:
        problem: Why other controllers cannot see the claim, or which other controller's claim
            it overrides; one sentence. None for no problem.
    """

    def __init__(self, cpus: Cpuset, socket: str) -> None:
        """Claim these CPUs.

        Args:
            cpus: CPUs to share out.
            socket: Path of the controller's socket.

        Raises:
            ClaimError: A controller of root or, unless this process runs as root, of any
                user has claimed some of the CPUs.
        """
        self.problem: str | None = None
        self._socket = socket
        self._file: int | None = None
        self._folder: TrustedFolder | None = None
        self._name = ""
        folders = list(_folders())
        try:
            # Write before reading: of two controllers that start at the same time, at least one
            # sees the other's claim.
            self._write(folders, cpus)
            others = [other for folder in folders for other in self._others(folder)]
        finally:
            for folder in folders:
                if folder is not self._folder:
                    folder.close()
        try:
            self._check([other for other in others if other.cpus & cpus], cpus)
        except ClaimError:
            self.close()
            raise

    def update(self, cpus: Cpuset) -> None:
        """Claim these CPUs instead, even if another controller has claimed them."""
        if self._file is not None:
            with suppress(OSError):
                self._put(self._file, cpus)

    def close(self) -> None:
        """Give up the claim."""
        if self._folder is not None:
            with suppress(OSError):
                os.unlink(self._name, dir_fd=self._folder.descriptor)
            self._folder.close()
        if self._file is not None:
            os.close(self._file)
        self._folder = self._file = None

    def _put(self, file: int, cpus: Cpuset) -> None:
        text = _text(cpus, self._socket)
        os.pwrite(file, text, 0)
        os.ftruncate(file, len(text))

    def _write(self, folders: list[TrustedFolder], cpus: Cpuset) -> None:
        for folder in folders:
            name = f"{_PREFIX}{os.geteuid()}-{secrets.token_hex(8)}"
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

    def _others(self, folder: TrustedFolder) -> Iterator[Claimed]:
        counts: Counter[int] = Counter()
        with suppress(OSError):
            for name in folder.names():
                is_own = folder is self._folder and name == self._name
                if is_own or not name.startswith(_PREFIX):
                    continue
                with suppress(OSError):
                    user = os.lstat(name, dir_fd=folder.descriptor).st_uid
                    counts[user] += 1
                    claimed = _read(folder.descriptor, name) if counts[user] <= _MOST else None
                    if claimed is not None:
                        yield claimed

    def _check(self, overlapping: list[Claimed], cpus: Cpuset) -> None:
        for other in overlapping:
            shared = format_cpuset(other.cpus & cpus)
            who = f"a controller of {user_name(other.uid)} (pid {other.pid})"
            # No user can prevent root from sharing out the machine.
            if other.uid != 0 and os.geteuid() == 0:
                self.problem = f"{who} shares out CPUs {shared}, too, until it is stopped"
                continue
            raise ClaimError(
                f"{who} already shares out CPUs {shared} and listens at {other.socket}:"
                " use that one, or choose other CPUs with --cpus"
            )


def _paths() -> list[str]:
    """Return the folders of claims; a controller writes to the first one that it can change."""
    chosen = os.environ.get(VARIABLE)
    if chosen is not None:
        return [chosen] if chosen else []
    return [_ROOTS_FOLDER, _SHARED_FOLDER]


def _folders() -> Iterator[TrustedFolder]:
    """Open the folders of claims, created if need be; leave out those that others can change."""
    for path in _paths():
        with suppress(OSError):
            yield _open_folder(path)


def _open_folder(path: str) -> TrustedFolder:
    is_new = not os.path.lexists(path)
    folder = TrustedFolder(path, 0o700, sticky=True)
    is_roots = path == _ROOTS_FOLDER and os.geteuid() == 0
    if is_new or is_roots:
        # Every user can read all folders. In those that are not root's, every user can add files
        # but not remove those of others. systemd may have created root's for root only.
        with suppress(OSError):
            os.chmod(f"/proc/self/fd/{folder.descriptor}", 0o755 if is_roots else 0o1777)
    return folder


def _create(folder: TrustedFolder, name: str) -> int:
    """Create a file that every user can read, and lock it; return its descriptor."""
    file = folder.open(name, os.O_RDWR | os.O_CREAT | os.O_EXCL)
    try:
        for _ in range(_ATTEMPTS):
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:  # Another controller is testing the lock.
                time.sleep(_ATTEMPT_SECONDS)
        else:
            raise BlockingIOError(errno.EAGAIN, os.strerror(errno.EAGAIN))
        # Only now: a process that can open the file can lock it.
        os.fchmod(file, 0o644)
    except BaseException:
        os.close(file)
        with suppress(OSError):
            os.unlink(name, dir_fd=folder.descriptor)
        raise
    return file


def _read(folder: int, name: str) -> Claimed | None:
    """Return the claim in a file; None if it contains none, or was left behind."""
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
            return parsed(content, about.st_uid)
        # A controller locks its file before it writes to it: this one was left behind.
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


def parsed(content: bytes, uid: int) -> Claimed | None:
    """Parse a claim of a user; return None if its process has ended or the content is malformed."""
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
    """Return whether a process runs, even if /proc hides processes of other users."""
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
