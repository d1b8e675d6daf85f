# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""The program of tests.support.long_reader: does what stdin says, a line of JSON for each.

It imports nothing of the tests, which another user's Python might not find.
"""

from __future__ import annotations

import fcntl
import json
import os
import struct
import sys


class _Opened:
    """The file that is kept open."""

    fd = -1


def _read(path: str) -> object:
    try:
        with open(path, "rb") as file:
            return file.read().hex()
    except OSError:
        return None


def _open(path: str) -> object:
    _Opened.fd = os.open(path, os.O_RDONLY)
    return "opened"


def _more(size: str) -> object:
    found = b""
    left = int(size)
    while left and (piece := os.read(_Opened.fd, left if left > 0 else 1 << 20)):
        found += piece
        left -= len(piece) if left > 0 else 0
    return found.hex()


def _close(_: str) -> object:
    os.close(_Opened.fd)
    return "closed"


def _call(code: str) -> object:
    names = {"fcntl": fcntl, "os": os, "struct": struct, "fd": _Opened.fd}
    try:
        value = eval(code, names)
    except OSError as error:
        return [error.errno]
    return value.decode("latin-1") if isinstance(value, bytes) else value


_VERBS = {
    "hello": lambda _: "hello",
    "read": _read,
    "open": _open,
    "more": _more,
    "close": _close,
    "call": _call,
}


def main() -> None:
    """Do what stdin says."""
    for line in sys.stdin:
        verb, _, argument = line.rstrip("\n").partition(" ")
        print(json.dumps(_VERBS[verb](argument)), flush=True)


if __name__ == "__main__":
    main()
