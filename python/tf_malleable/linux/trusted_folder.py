# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Trusted folder: a folder that nobody but root and this user can change or replace.

What it contains was put there by root or this user, so it may be believed. The path is walked
once, from the root of the file system, and every step must be trusted:

- Each folder on the way belongs to root or this user. In a user namespace, the host's root looks
  like any user that the namespace does not map; such a folder may be on the way, but not at the
  end of it.
- None can be written by its group or others, but by a group that its owner has alone. An access
  control list that lets another user write shows in these bits, as its mask. A sticky folder, such
  as /tmp, may be on the way, but not at the end of it: what another user created in it is refused
  by the first rule, and the kernel lets nobody else rename or remove what belongs to root or this
  user. A mount point in it is refused, because a file system in user space names any owner that it
  likes.
- A symbolic link is followed by the same rules, except in a sticky folder, where it is refused: a
  hard link to a link of root's may have been put there.

From then on, the path leads to this folder, and files in it are opened by its descriptor.

Every file, folder and socket of ours in /run, /tmp or a home is found by these rules; SECURITY.md
lists them. What a client believes of a socket is who listens there, as the kernel says.
"""

from __future__ import annotations

import errno
import os
import stat
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Final

from tf_malleable.linux.processes.users import is_foreign, is_private_group, user_name

_STEP: Final = os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC
_FOLDER: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
# A pipe is opened without waiting for another process.
_FILE: Final = os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_WRITABLE: Final = stat.S_IWGRP | stat.S_IWOTH
_ACCESS_LIST: Final = "system.posix_acl_access"
_MOST_LINKS: Final = 40


class TrustedFolder:
    """An open folder that nobody but root and this user can change or replace.

    Attributes:
        path: Absolute path of the folder, without symbolic links.
        descriptor: Descriptor of the folder, opened with O_PATH.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        mode: int | None = None,
        *,
        sticky: bool = False,
        strict: bool = False,
    ) -> None:
        """Open a folder.

        Args:
            path: Path of the folder.
            mode: Mode with which missing folders are created, on which the umask has its effect;
                None to create none.
            sticky: True if the folder may be a sticky one, in which others may create files.
            strict: True if no group may write, as the tier's shim, which knows no groups, will
                check the folder, too.

        Raises:
            OSError: There is no such folder, or another user can change or replace it. The
                attribute `strerror` is one sentence.
        """
        way = os.path.abspath(path)
        for _ in range(_MOST_LINKS):
            found = _walk(way, mode, sticky, strict)
            if isinstance(found, int):
                self.path, self.descriptor = Path(way), found
                return
            way = found
        raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), os.fspath(path))

    def __enter__(self) -> TrustedFolder:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the descriptor."""
        os.close(self.descriptor)

    def names(self) -> list[str]:
        """Return the names of what is in the folder, in no order.

        Raises:
            OSError: The folder cannot be read.
        """
        descriptor = os.open(".", _FOLDER, dir_fd=self.descriptor)
        try:
            return os.listdir(descriptor)
        finally:
            os.close(descriptor)

    def sync(self) -> None:
        """Wait until the disk has the names of what is in the folder.

        Raises:
            OSError: The folder cannot be read, or the disk has an error.
        """
        descriptor = os.open(".", _FOLDER, dir_fd=self.descriptor)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)

    def open(self, name: str, flags: int, mode: int = 0o600) -> int:
        """Open a regular file of root or this user, without following a link; see os.open().

        Args:
            name: Name of the file in the folder.
            flags: Flags of open(2), without O_TRUNC.
            mode: Mode of a file that is created.

        Raises:
            OSError: The file cannot be opened, is not a regular file, or belongs to another user.
        """
        descriptor = os.open(name, flags | _FILE, mode, dir_fd=self.descriptor)
        return self._checked(descriptor, name, stat.S_ISREG(os.fstat(descriptor).st_mode))

    def open_folder(self, name: str) -> int:
        """Open a folder of root or this user that is in this one; others may write to it.

        Raises:
            OSError: The folder cannot be opened, or belongs to another user.
        """
        descriptor = os.open(name, os.O_RDONLY | os.O_DIRECTORY | _FILE, dir_fd=self.descriptor)
        return self._checked(descriptor, name, is_kind=True)

    def _checked(self, descriptor: int, name: str, is_kind: bool) -> int:
        owner = os.fstat(descriptor).st_uid
        if is_kind and _is_own(owner):
            return descriptor
        os.close(descriptor)
        path = self.path / name
        raise _belongs_to(path, owner) if is_kind else _refusal(f"{path} is not a regular file")


def open_trusted(path: str | os.PathLike[str], flags: int) -> int:
    """Open a regular file in a trusted folder, or what a link there leads to by the same rules.

    Args:
        path: Path of the file.
        flags: Flags of open(2), without O_CREAT and O_TRUNC.

    Raises:
        OSError: The file cannot be opened, or another user can change or replace it. The attribute
            `strerror` is one sentence.
    """
    way = os.path.abspath(path)
    for _ in range(_MOST_LINKS):
        with TrustedFolder(os.path.dirname(way)) as folder:
            name = os.path.basename(way)
            try:
                target = os.readlink(name, dir_fd=folder.descriptor)
            except OSError as error:
                if error.errno != errno.EINVAL:  # It is no link.
                    raise
                descriptor = folder.open(name, flags)
                about = os.fstat(descriptor)
                if _others_may_write(descriptor, about):
                    os.close(descriptor)
                    raise _writable(way, about.st_mode) from None
                return descriptor
            way = os.path.normpath(os.path.join(folder.path, target))
    raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), os.fspath(path))


def _walk(way: str, mode: int | None, sticky: bool, strict: bool) -> int | str:
    """Return the descriptor of a folder; at a symbolic link, the path to walk instead."""
    names = way.split("/")[1:] if way != "/" else []
    folder = os.open("/", _STEP)
    try:
        _check(folder, "/", strict, is_last=not names and not sticky)
        for count, name in enumerate(names, 1):
            path = "/" + "/".join(names[:count])
            inner = _enter(folder, name, mode)
            outer, folder = folder, inner
            try:
                target = _target(outer, inner, path, strict)
            finally:
                os.close(outer)
            if target is not None:
                os.close(folder)
                return os.path.normpath(os.path.join(target, *names[count:]))
            _check(folder, path, strict, is_last=count == len(names) and not sticky)
    except OSError:
        with suppress(OSError):
            os.close(folder)
        raise
    return folder


def _enter(folder: int, name: str, mode: int | None) -> int:
    try:
        return os.open(name, _STEP, dir_fd=folder)
    except FileNotFoundError:
        if mode is None:
            raise
    with suppress(FileExistsError):  # Another process may have created it since.
        os.mkdir(name, mode, dir_fd=folder)
    return os.open(name, _STEP, dir_fd=folder)


def _target(outer: int, inner: int, path: str, strict: bool) -> str | None:
    """Return where a symbolic link leads to; None if it is none.

    Raises:
        OSError: Another user may have put it there.
    """
    about, around = os.fstat(inner), os.fstat(outer)
    is_link = stat.S_ISLNK(about.st_mode)
    if _others_may_write(outer, around, strict) and (is_link or about.st_dev != around.st_dev):
        kind = "symbolic link" if is_link else "mount point"
        raise _refusal(f"{path} is a {kind} in a folder that other users may write to")
    if not is_link:
        return None
    if not _is_own(about.st_uid) and not is_foreign(about.st_uid):
        raise _belongs_to(path, about.st_uid)
    return os.path.join(os.path.dirname(path), os.readlink("", dir_fd=inner))


def _check(folder: int, path: str, strict: bool, is_last: bool) -> None:
    """Raise OSError unless a step may be trusted; it is no symbolic link."""
    about = os.fstat(folder)
    if not stat.S_ISDIR(about.st_mode):
        raise NotADirectoryError(errno.ENOTDIR, f"{path} is not a folder")
    if not _is_own(about.st_uid) and (is_last or not is_foreign(about.st_uid)):
        raise _belongs_to(path, about.st_uid)
    is_sticky = about.st_mode & stat.S_ISVTX
    if (is_last or not is_sticky) and _others_may_write(folder, about, strict):
        raise _writable(path, about.st_mode)


def _others_may_write(descriptor: int, about: os.stat_result, strict: bool = False) -> bool:
    """Return whether anybody but its owner may write to a file or folder."""
    if not about.st_mode & stat.S_IWGRP or about.st_mode & stat.S_IWOTH:
        return bool(about.st_mode & _WRITABLE)
    if strict or not is_private_group(about.st_gid, about.st_uid):
        return True
    try:
        os.getxattr(f"/proc/self/fd/{descriptor}", _ACCESS_LIST)
    except OSError as error:
        return error.errno not in (errno.ENODATA, errno.ENOTSUP)
    return True


def _is_own(uid: int) -> bool:
    return uid in (0, os.geteuid())


def _belongs_to(path: str | Path, uid: int) -> OSError:
    who = "who is not root" if os.geteuid() == 0 else "who is neither root nor you"
    return _refusal(f"{path} belongs to user {user_name(uid)}, {who}")


def _writable(path: str, mode: int) -> OSError:
    return _refusal(f"other users may write to {path} (mode {stat.S_IMODE(mode):04o})")


def _refusal(sentence: str) -> OSError:
    return PermissionError(errno.EACCES, sentence)
