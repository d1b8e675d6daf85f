# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""What nodes say to each other, by HTTP: about records in JSON, and blocks of copies as they are.

The name of a file may have any bytes but zero, and JSON has only text, so names
are sent as Latin-1.
"""

from __future__ import annotations

import base64
import os
from typing import Final

import msgspec

RECORDS_PATH: Final = "/v1/records"
BLOCKS_PATH: Final = "/v1/blocks"
SIGNATURE: Final = "X-Tier-Signature"
"""The header of a request with its signature."""
ANSWER: Final = "X-Tier-Answer"
"""The header of an answer with its code."""
BLOCKS: Final = "X-Tier-Blocks"
"""The header of an answer with the checksums of the blocks in its body."""
MOST_BLOCKS: Final = 32
"""In one answer."""
WAIT_SECONDS: Final = 0.3
"""For how long a node waits for the next block of a growing copy before it says that there is
none."""


class RecordsMessage(msgspec.Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """What a node says to a home.

    Attributes:
        node: Who says it.
        ask: Files that are wanted, each with its version.
        hold: Files of which the node has copies, each with its version.
        keep: Files that the node still reads from the source.
        release: Files of which the node has no copy any more.
        sole: Files of which the node wants to know whether nobody else has a copy.
        rotten: Files of which the copy that came from here was not what its checksum says.
    """

    node: str
    ask: tuple[tuple[str, str], ...] = ()
    hold: tuple[tuple[str, str], ...] = ()
    keep: tuple[str, ...] = ()
    release: tuple[str, ...] = ()
    sole: tuple[str, ...] = ()
    rotten: tuple[str, ...] = ()


class RecordsAnswer(msgspec.Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """What a home answers.

    Attributes:
        instance: Another one after each start of the home, which then knows nothing.
        asked: For each file that was asked for, whether the node has the claim, who has a
            copy, and whether it is complete.
        sole: For each file, whether nobody else has a copy.
    """

    instance: str
    asked: tuple[tuple[bool, tuple[str, ...], bool], ...] = ()
    sole: tuple[bool, ...] = ()


class BlocksHeader(msgspec.Struct, frozen=True, array_like=True):
    """What the header of an answer says of the blocks in its body.

    Attributes:
        first: The number of the first one.
        size: Of the whole file, in bytes.
        codes: The checksum of each.
        identity: Of the file in the source.
    """

    first: int
    size: int
    codes: tuple[int, ...]
    identity: bytes


def key_of(area: str, path: str) -> str:
    """Return the name of a copy that is the same on all nodes.

    Args:
        area: The area of the copy.
        path: Of the file in the source, absolute.
    """
    return os.fsencode(f"{area}{path}").decode("latin-1")


def area_and_path(key: str) -> tuple[str, str]:
    """Return what key_of() was given.

    Raises:
        ValueError: It is no such name.
    """
    whole = os.fsdecode(key.encode("latin-1"))
    folders = 2 if whole.startswith("private/") else 1
    parts = whole.split("/", folders)
    if len(parts) <= folders:
        raise ValueError("the name of a copy is an area and a path")
    area, path = "/".join(parts[:folders]), "/" + parts[folders]
    if ".." in path.split("/") or "\0" in path:
        raise ValueError("the path of a copy has no '..'")
    return area, path


def encode_key(key: str) -> str:
    """Return the name of a copy as part of a URL, in letters that nobody quotes."""
    return base64.urlsafe_b64encode(key.encode("latin-1")).decode().rstrip("=")


def decode_key(text: str) -> str:
    """Return what encode_key() was given.

    Raises:
        ValueError: It is no such text.
    """
    padded = text + "=" * (-len(text) % 4)
    return base64.urlsafe_b64decode(padded.encode("ascii")).decode("latin-1")
