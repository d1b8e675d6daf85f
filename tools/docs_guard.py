# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""A MkDocs hook: pages must not load from other hosts, nor the build import TensorFlow."""

from __future__ import annotations

import logging
import re
import sys

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.pages import Page

# A child of MkDocs's own logger, so that its warnings fail a strict build.
_log = logging.getLogger("mkdocs.hooks.docs_guard")

# What a browser fetches by itself. Links for readers are allowed.
_FETCHED = re.compile(
    r"<(?:script|img|iframe|source|video)\b[^>]*\bsrc=[\"']?(?:https?:)?//[^\s\"'>]+"
    r"|<link\b[^>]*\brel=[\"']?(?:stylesheet|preconnect|preload|icon)\b[^>]*(?:https?:)?//[^>]+",
    re.IGNORECASE,
)


def on_post_page(output: str, page: Page, config: MkDocsConfig) -> None:
    """Warn about everything that a page would fetch from another host."""
    for match in _FETCHED.finditer(output):
        _log.warning("%s fetches from another host: %s", page.file.src_uri, match[0])


def on_post_build(config: MkDocsConfig) -> None:
    """Warn if TensorFlow was imported, which takes seconds and prints a lot."""
    if "tensorflow" in sys.modules:
        _log.warning("the build of the documentation has imported tensorflow")
