# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Each commit that a page names, so that a figure can be measured again, is in its history."""

from __future__ import annotations

import re
import shutil
import subprocess

import pytest

from tests.support import ROOT
from tests.support.pages import PAGES

COMMIT = re.compile(r"`((?=[a-f]*\d)[0-9a-f]{7,40})`")


def git(*arguments: str) -> subprocess.CompletedProcess:
    line = ["git", "-C", str(ROOT), *arguments]
    return subprocess.run(line, capture_output=True, text=True, check=False)


@pytest.mark.skipif(
    shutil.which("git") is None
    or not (ROOT / ".git").exists()
    or git("rev-parse", "--is-shallow-repository").stdout == "true\n",
    reason="the repository's history is not here",
)
def test_commits_that_pages_name_are_in_the_history():
    named = {name for page in PAGES for name in COMMIT.findall((ROOT / page).read_text())}
    assert len(named) > 20
    # Others may be in a repository, too: those that were changed before they landed.
    history = git("rev-list", "HEAD").stdout.split()
    assert {name for name in named if not any(each.startswith(name) for each in history)} == set()
