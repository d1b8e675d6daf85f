# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""A MkDocs hook: makes links to files outside docs/ work on the site, too.

In a checkout, a page of docs/ may link to any file of the repository. Each such file
becomes a page of the site, below repository/: Markdown unchanged, other files as a
listing. A link to a folder becomes plain text, as a site has no folders. A link to a
missing file is left unchanged, so that MkDocs reports it.
"""

from __future__ import annotations

import os
import posixpath
import re
from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

_ROOT = Path(__file__).parent.parent
_DOCS = "docs"
_SITE = "repository"

_LINK = re.compile(r"(?P<image>!?)\[(?P<text>[^][]*)\]\((?P<target>[^()\s]+)\)")
_FENCE = re.compile(r"^(```+).*?^\1$", re.DOTALL | re.MULTILINE)
_ELSEWHERE = re.compile(r"[a-z]+:|#|/")
_LANGUAGES = {".h": "cpp", ".cc": "cpp", ".py": "python", ".service": "ini", ".toml": "toml"}

# Files of the repository by the path of their page.
_added: dict[str, str] = {}


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add a page for each file outside docs/ that is linked to, directly or indirectly."""
    _added.clear()
    todo = [f"{_DOCS}/{file.src_uri}" for file in files.documentation_pages()]
    while todo:
        source = todo.pop()
        for link in _LINK.finditer(_FENCE.sub("", _read(source))):
            path = _resolve(source, link["target"])
            if path is None or _is_in_docs(path) or not (_ROOT / path).is_file():
                continue
            page = _page_of(path)
            if page not in _added:
                _added[page] = path
                files.append(File.generated(config, page, content=_content(path)))
                if path.endswith(".md"):
                    todo.append(path)
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Turn links within the repository into links within the site."""
    here = page.file.src_uri
    source = _added.get(here, f"{_DOCS}/{here}")
    if not source.endswith(".md"):
        return markdown
    parts, end = [], 0
    for fence in _FENCE.finditer(markdown):
        parts += [_relinked(markdown[end : fence.start()], source, here), fence[0]]
        end = fence.end()
    return "".join([*parts, _relinked(markdown[end:], source, here)])


def _relinked(text: str, source: str, here: str) -> str:
    def relink(link: re.Match[str]) -> str:
        path = _resolve(source, link["target"])
        if path is None:
            return link[0]
        _, hash_, anchor = link["target"].partition("#")
        if _is_in_docs(path):
            there = posixpath.relpath(path, _DOCS)
        elif (_ROOT / path).is_file():
            there = _page_of(path)
        elif (_ROOT / path).is_dir():
            return link["text"]
        else:
            return link[0]
        relative = posixpath.relpath(there, posixpath.dirname(here) or ".")
        return f"{link['image']}[{link['text']}]({relative}{hash_}{anchor})"

    return _LINK.sub(relink, text)


def _resolve(source: str, target: str) -> str | None:
    """Return the path in the repository that a link points to; None for other links."""
    if _ELSEWHERE.match(target):
        return None
    path = target.partition("#")[0]
    return posixpath.normpath(posixpath.join(posixpath.dirname(source), path))


def _is_in_docs(path: str) -> bool:
    return path.startswith(f"{_DOCS}/")


def _page_of(path: str) -> str:
    return f"{_SITE}/{path}" if path.endswith(".md") else f"{_SITE}/{path}.md"


def _content(path: str) -> str:
    text = _read(path)
    if path.endswith(".md"):
        return text
    language = _LANGUAGES.get(os.path.splitext(path)[1], "text")
    return f"# {path}\n\n````{language}\n{text}````\n"


def _read(path: str) -> str:
    return (_ROOT / path).read_text(encoding="utf-8")
