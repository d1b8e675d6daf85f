# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Messages between nodes, by HTTP: location records in JSON, and blocks of copies as raw bytes.

The name of a file may contain any byte but zero, and JSON contains only text, so names
are sent as Latin-1.
"""

from __future__ import annotations

import base64
import functools
import os
from typing import Final

import msgspec

RECORDS_PATH: Final = "/v1/records"
BLOCKS_PATH: Final = "/v1/blocks"
SIGNATURE: Final = "X-Tier-Signature"
"""Header with the signature of a request."""
ANSWER: Final = "X-Tier-Answer"
"""Header with the code of an answer."""
BLOCKS: Final = "X-Tier-Blocks"
"""Header with the checksums of the blocks in an answer's body."""
MOST_BLOCKS: Final = 32
"""Maximum number of blocks in one answer."""
WAIT_SECONDS: Final = 0.3
"""Time for which a node waits for the next block of a partial copy before it answers none."""


class RecordsMessage(msgspec.Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """A message from a node to a home: the node that keeps the location records of files.

    Attributes:
        node: Address of the sender.
        ask: Files that the sender wants to read, each with its version.
        hold: Files of which the sender has complete copies, each with its version.
        keep: Files that the sender still reads from the source.
        release: Files of which the sender no longer has a copy.
        sole: Files for which the sender asks whether no other node has a copy.
        rotten: Files whose copy, fetched from the receiver, did not match its checksum.
    """

    node: str
    ask: tuple[tuple[str, str], ...] = ()
    hold: tuple[tuple[str, str], ...] = ()
    keep: tuple[str, ...] = ()
    release: tuple[str, ...] = ()
    sole: tuple[str, ...] = ()
    rotten: tuple[str, ...] = ()


class RecordsAnswer(msgspec.Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """Response of a home.

    Attributes:
        instance: Id of the home's process. A new one means that the home has restarted and
            lost its records.
        asked: For each file in `ask`, whether the node has the claim, which nodes have a copy,
            and whether their copies are complete.
        sole: For each file in `sole`, whether no other node has a copy.
    """

    instance: str
    asked: tuple[tuple[bool, tuple[str, ...], bool], ...] = ()
    sole: tuple[bool, ...] = ()


class BlocksHeader(msgspec.Struct, frozen=True, array_like=True):
    """Header of a response that describes the blocks in its body.

    Attributes:
        first: Number of the first block.
        size: Size of the whole file in bytes.
        codes: Checksums of the blocks.
        identity: Encoded identity of the file in the source.
    """

    first: int
    size: int
    codes: tuple[int, ...]
    identity: bytes


def key_of(area: str, path: str) -> str:
    """Return the key of a copy, which is the same on all nodes.

    Args:
        area: Area of the copy.
        path: Absolute path of the file in the source.
    """
    return os.fsencode(f"{area}{path}").decode("latin-1")


@functools.lru_cache(1024)
def area_and_path(key: str) -> tuple[str, str]:
    """Return the area and the path in a key from key_of().

    Raises:
        ValueError: The text is not such a key.
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
    """Encode a key as part of a URL, with characters that need no quoting."""
    return base64.urlsafe_b64encode(key.encode("latin-1")).decode().rstrip("=")


def decode_key(text: str) -> str:
    """Decode the result of encode_key().

    Raises:
        ValueError: The text is malformed.
    """
    padded = text + "=" * (-len(text) % 4)
    return base64.urlsafe_b64decode(padded.encode("ascii")).decode("latin-1")
