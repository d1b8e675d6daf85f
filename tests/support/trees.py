# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""A stand-in for TensorFlow's sources, which are too large to have here.

It is made from facts recorded of the sources themselves (``originals.json``): each file that the
series changes has its real number of lines, and a line of a patch stands in it only where the
real file has a line of the same hash. So a patch that expects anything else does not apply, as it
would not apply to TensorFlow. Files that the installed wheel ships are taken from there.
"""

from __future__ import annotations

import hashlib
import subprocess
import sys
from pathlib import Path

from patch_series import PATCHES, Series, find_series
from source_facts import FileFacts, line_hash, read_facts

from tests.support import ROOT
from tests.support.deadline import DEADLINE
from tf_malleable.runtime.tensorflow_install import find_tensorflow

TOOL = ROOT / "tools" / "apply_patches.py"
VERSION = "2.21.0"
SERIES = find_series(VERSION)
ALL_SERIES = [
    find_series(path.parent.name.partition("-")[2]) for path in sorted(PATCHES.glob("*/series"))
]
PACKAGE = Path("third_party/xla/third_party/tf_malleable")
THREAD_POOL = Path("third_party/xla/xla/tsl/platform/threadpool.cc")
DEVICE_BASE = Path("tensorflow/core/framework/device_base.cc")


def wheels_file(name: Path) -> Path:
    """Return where the installed wheel has a header of TensorFlow's tree."""
    found = find_tensorflow()
    assert found is not None
    return found.directory / "include" / str(name).removeprefix("third_party/xla/")


def _stand_in(name: Path, facts: FileFacts, texts: dict[str, str]) -> str:
    """Return a file with the lines of the original that the patches name, and others."""
    header = wheels_file(name)
    if header.is_file() and hashlib.sha256(header.read_bytes()).hexdigest() == facts.sha256:
        return header.read_text()
    lines = [f"// Line {number} of the original." for number in range(1, facts.lines + 1)]
    for number, known in facts.context.items():
        lines[number - 1] = texts.get(known, f"// Line {number}, which no patch has.")
    return "\n".join(lines) + "\n"


def make_tree(folder: Path, version: str = VERSION, series: Series = SERIES) -> Path:
    """Write the stand-in for the sources of a series to a folder, under a version."""
    texts = {line_hash(line): line for hunk in series.hunks for line in hunk.old}
    facts = read_facts(series)
    for name, file in facts.files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(_stand_in(name, file, texts))
    for name, names in facts.recipe.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text("\n".join(names) + "\n")
    known = folder / "tensorflow" / "tf_version.bzl"
    known.write_text(f'"""The version."""\n\nTF_VERSION = "{version}"\n')
    return folder


def contents(folder: Path) -> dict[str, bytes]:
    """Return all files of a folder but Git's."""
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file() and ".git" not in path.parts
    }


def tool(*arguments: object, **options: object) -> subprocess.CompletedProcess[str]:
    """Run tools/apply_patches.py."""
    return subprocess.run(
        [sys.executable, str(TOOL), *map(str, arguments)],
        capture_output=True,
        text=True,
        check=False,
        timeout=DEADLINE,
        **options,  # type: ignore[call-overload]
    )
