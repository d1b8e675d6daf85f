# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""What is vendored is unchanged, and the whole page is small and fetches nothing."""

from __future__ import annotations

import json
import re

import pytest
import vendor

from tf_malleable.web.files import FOLDER, INDEX, security_headers, static_files

MOST_PACKED = 100_000
OWN = sorted(path for path in FOLDER.iterdir() if path.is_file())


@pytest.mark.parametrize("folder", vendor.FOLDERS, ids=lambda folder: folder.parent.name)
def test_libraries_are_what_their_list_says(folder):
    packages = json.loads((folder / vendor.LIST).read_text())
    assert list(vendor.differences(folder, packages)) == []
    for package in packages.values():
        assert package["version"]
        assert package["licence"] in ("MIT", "Apache-2.0", "MPL-2.0")
        assert any("LICENSE" in name for name in package["files"])


def test_a_changed_a_missing_and_an_unknown_file_are_noticed(tmp_path):
    files = {"a.js": {"from": "a.js", "hash": vendor.sha256(b"a")}, "b.js": {"hash": "sha256-"}}
    packages = {"p": {"files": files}}
    (tmp_path / "a.js").write_bytes(b"a")
    (tmp_path / "b.js").write_bytes(b"changed")
    (tmp_path / "c.js").write_bytes(b"")
    complaints = "\n".join(vendor.differences(tmp_path, packages))
    assert "c.js is not in vendor.json" in complaints
    assert "b.js is not what" in complaints
    assert "a.js" not in complaints
    (tmp_path / "a.js").unlink()
    assert "a.js is missing" in "\n".join(vendor.differences(tmp_path, packages))


def test_the_whole_page_is_small():
    sizes = {name: len(file.packed) for name, file in static_files().items()}
    assert {"index.html", "main.js", "page.css", "vendor/preact.mjs"} <= sizes.keys()
    assert sum(sizes.values()) <= MOST_PACKED


def test_nothing_is_fetched_from_elsewhere_and_names_never_become_markup():
    assert len(OWN) > 10
    for path in OWN:
        text = path.read_text().replace("http://www.w3.org/2000/svg", "")
        assert not re.search(r"https?://", text), path
        assert not re.search(
            r"innerHTML|outerHTML|insertAdjacent|\beval\(|document\.write", text
        ), path


def test_only_the_import_map_is_allowed_beside_our_files():
    headers = security_headers(static_files()[INDEX].plain)
    assert headers["Content-Security-Policy"].count("sha256-") == 1
    assert (
        "sha256-" not in security_headers(b"<script src='x'></script>")["Content-Security-Policy"]
    )
