# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Fast reads of small kernel files, of which thousands are read every minute, and writes.

File objects and pathlib would take longer than the kernel.
"""

from __future__ import annotations

import os

TYPE_CHECKING = False  # As in typing, which takes longer to load than all of this.
if TYPE_CHECKING:
    from typing import Final

_MOST: Final = 65536


def read(path: str, most: int = _MOST) -> bytes:
    """Return the content of a kernel file from a single read, at most `most` bytes.

    This is for files that the kernel produces in one piece. For a long list, such as
    cgroup.procs, a single read returns only a part; see read_whole().

    Raises:
        OSError: The file cannot be read, or its process has ended.
    """
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        return os.read(descriptor, most)
    finally:
        os.close(descriptor)


def read_whole(path: str) -> bytes:
    """Return the whole content of a kernel file of any length.

    Raises:
        OSError: See read().
    """
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        whole = piece = os.read(descriptor, _MOST)
        while piece:
            piece = os.read(descriptor, _MOST)
            whole += piece
        return whole
    finally:
        os.close(descriptor)


def read_text(path: str, most: int = _MOST) -> str:
    """Return the result of read() as text; bytes that are not UTF-8 become U+FFFD.

    Raises:
        OSError: See read().
    """
    return read(path, most).decode(errors="replace")


def write(path: str, text: str) -> None:
    """Write a text to a kernel file, in one piece; unlike open(…, "w"), create no file.

    Raises:
        OSError: There is no such file, or the kernel refuses.
    """
    descriptor = os.open(path, os.O_WRONLY | os.O_CLOEXEC)
    try:
        os.write(descriptor, text.encode())
    finally:
        os.close(descriptor)


def try_write(path: str, text: str) -> bool:
    """Write a text to a kernel file as write() does; return whether the kernel accepts it."""
    try:
        write(path, text)
    except OSError:
        return False
    return True


def unescaped(path: str) -> str:
    """Return a path from mountinfo as it is, with the characters that the kernel escapes."""
    import re  # `tfm run` reads no such path, and must start fast.

    return re.sub(r"\\([0-7]{3})", lambda found: chr(int(found.group(1), 8)), path)
