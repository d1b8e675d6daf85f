# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Object names: S3 objects that are copied or asked for, and the paths that stand for them.

The copy of s3://BUCKET/a/b has the path /s3:/BUCKET/a/b% in the keys of copies. The mark at the
end keeps it apart from the folder of s3://BUCKET/a/b/c, as a bucket may have both objects.
"""

from __future__ import annotations

import os
import re
from typing import Final, NamedTuple
from urllib.parse import quote, unquote, unquote_to_bytes

SCHEME: Final = "s3://"
FOLDER: Final = "/s3:"
"""Folder of all objects in the keys of copies; no source may be there."""
_MARK: Final = "%"
# Before parts of a key that are no names of files: empty ones, "." and "..".
_PECULIAR: Final = "%-"
_LONGEST_NAME: Final = 255  # Bytes; NAME_MAX of linux/limits.h.
_BUCKET: Final = re.compile(r"(?!\.{1,2}$)[A-Za-z0-9._-]{1,255}")


class ObjectSource(NamedTuple):
    """Objects that are copied.

    Attributes:
        bucket: Name of the bucket.
        prefix: Prefix of the objects' keys, with "/" at the end; empty for all.
    """

    bucket: str
    prefix: str

    @classmethod
    def parse(cls, text: str) -> ObjectSource:
        """Parse s3://BUCKET or s3://BUCKET/FOLDER.

        Raises:
            ValueError: The text is neither.
        """
        bucket, _, rest = text.removeprefix(SCHEME).partition("/")
        folder = rest.strip("/")
        if not _BUCKET.fullmatch(bucket) or not {".", ".."}.isdisjoint(folder.split("/")):
            raise ValueError(f"--source {text} is not s3://BUCKET or s3://BUCKET/FOLDER")
        return cls(bucket, f"{folder}/" if folder else "")

    def __str__(self) -> str:
        return f"{SCHEME}{self.bucket}/{self.prefix}".rstrip("/")

    def has(self, bucket: str, key: str) -> bool:
        """Return whether an object is one of these."""
        return bucket == self.bucket and key.startswith(self.prefix)


class ObjectTarget(NamedTuple):
    """What a request in the path style of S3 is about.

    A client's encoding is undone, and done again in the one form that signatures are made of. So
    the rules about sources, the store and S3 cannot have different ideas of a key.

    Attributes:
        bucket: Name of the bucket; empty for the list of all.
        key: Key of the object; empty for the bucket itself.
        query: Names and values of the query, decoded; a value is None without "=".
    """

    bucket: str
    key: str
    query: tuple[tuple[str, str | None], ...] = ()

    @classmethod
    def parse(cls, raw: str) -> ObjectTarget:
        """Parse a path with a query, as sent; the signature of a presigned URL is left out.

        Raises:
            ValueError: The path is not one of a bucket or an object, or may not reach S3
                unchanged; the message is one sentence.
        """
        path, _, query = raw.partition("?")
        if not path.startswith("/"):
            raise ValueError("the target of a request must be a path")
        bucket, _, key = _decoded(path[1:]).partition("/")
        if (bucket or key) and not _BUCKET.fullmatch(bucket):
            raise ValueError(f"{bucket!r:.80} is not the name of a bucket")
        if "\0" in key or not {".", ".."}.isdisjoint(key.split("/")):
            # A proxy on the way may take the parts for steps, and end in another bucket.
            raise ValueError("a key with a zero, or with a part '.' or '..', is not supported")
        pairs = (each.partition("=") for each in query.split("&") if each)
        decoded = ((_decoded(name), _decoded(value) if is_ else None) for name, is_, value in pairs)
        return cls(
            bucket, key, tuple(each for each in decoded if not each[0].lower().startswith("x-amz-"))
        )

    @property
    def raw(self) -> str:
        """Path with the query, encoded as signatures need it."""
        path = f"/{self.bucket}/{quote(self.key, safe='/-_.~')}" if self.bucket else "/"
        query = "&".join(
            quote(name, safe="-_.~") + ("" if value is None else f"={quote(value, safe='-_.~')}")
            for name, value in self.query
        )
        return f"{path}?{query}" if query else path


def file_of(bucket: str, key: str) -> str:
    """Return the path that stands for an object.

    Raises:
        ValueError: The key cannot be the path of a file.
    """
    path = folder_of(bucket, key) + _MARK
    if "\0" in key or any(len(os.fsencode(each)) > _LONGEST_NAME for each in path.split("/")):
        raise ValueError("a part of the key is too long for the name of a file, or has a zero")
    return path


def folder_of(bucket: str, key: str) -> str:
    """Return the path of the folder of the objects below a key."""
    parts = (
        _PECULIAR + each if each in ("", ".", "..") else each.replace("%", "%25")
        for each in key.split("/")
    )
    return "/".join((FOLDER, bucket, *parts))


def paths_of(url: str) -> tuple[str, ...]:
    """Return the paths of the object s3://BUCKET/KEY and the folder of its name; others as given.

    Raises:
        ValueError: There is no such bucket, or the key cannot be the path of a file.
    """
    if not url.startswith(SCHEME):
        return (url,)
    bucket, _, key = url.removeprefix(SCHEME).partition("/")
    if not _BUCKET.fullmatch(bucket):
        raise ValueError(f"{bucket!r:.80} is not the name of a bucket")
    if not key.strip("/"):
        return (f"{FOLDER}/{bucket}",)
    return file_of(bucket, key), folder_of(bucket, key.rstrip("/"))


def is_object(path: str) -> bool:
    """Return whether a path in the key of a copy stands for an object."""
    return path.startswith(f"{FOLDER}/")


def shown(path: str) -> str:
    """Return a path in the key of a copy as users name it: objects as s3://BUCKET/KEY."""
    if not is_object(path):
        return path
    parts = path.removeprefix(f"{FOLDER}/").removesuffix(_MARK).split("/")
    return SCHEME + "/".join(unquote(each.removeprefix(_PECULIAR)) for each in parts)


def _decoded(text: str) -> str:
    try:
        return unquote_to_bytes(text).decode()
    except UnicodeError:
        raise ValueError("the target of a request must be UTF-8") from None
