# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Static files of the page, and the security headers for the browser."""

from __future__ import annotations

import base64
import gzip
import hashlib
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Final

FOLDER: Final = Path(__file__).parent / "static"
INDEX: Final = "index.html"

_TYPES: Final = {
    ".css": "text/css",
    ".html": "text/html",
    ".js": "text/javascript",
    ".mjs": "text/javascript",
    ".svg": "image/svg+xml",
}
_INLINE = re.compile(rb"<script[^>]*>([^<]+)</script>")


@dataclass(frozen=True)
class StaticFile:
    """A file of the page.

    Attributes:
        media: Content type.
        plain: Content.
        packed: Content compressed with gzip.
        tag: ETag.
    """

    media: str
    plain: bytes
    packed: bytes
    tag: str

    @classmethod
    def read(cls, path: Path) -> StaticFile:
        """Return the file at a path."""
        plain = path.read_bytes()
        packed = gzip.compress(plain, 9, mtime=0)
        return cls(_TYPES[path.suffix], plain, packed, f'"{_hash(plain)[:27]}"')


def static_files() -> dict[str, StaticFile]:
    """Return the files of the page by path below its folder."""
    return {
        str(path.relative_to(FOLDER)): StaticFile.read(path)
        for path in sorted(FOLDER.rglob("*"))
        if path.suffix in _TYPES
    }


def security_headers(index: bytes) -> dict[str, str]:
    """Return the headers of all responses: only the page's own files, and no code hidden in names.

    Args:
        index: The page; its inline scripts (the import map) are allowed by their hashes.
    """
    scripts = " ".join(f"'sha256-{_hash(script)}'" for script in _INLINE.findall(index))
    policy = {
        "default-src": "'none'",
        "script-src": f"'self' {scripts}",
        "style-src": "'self'",
        "img-src": "'self'",
        "connect-src": "'self'",
        "base-uri": "'none'",
        "form-action": "'none'",
        "frame-ancestors": "'none'",
    }
    return {
        "Content-Security-Policy": "; ".join(" ".join(each) for each in policy.items()),
        "Cross-Origin-Opener-Policy": "same-origin",
        "Cross-Origin-Resource-Policy": "same-origin",
        "Referrer-Policy": "no-referrer",
        "X-Content-Type-Options": "nosniff",
    }


def _hash(data: bytes) -> str:
    return base64.b64encode(hashlib.sha256(data).digest()).decode()
