# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""A stand-in for TensorFlow's sources, which are too large to have here.

Each file that the series changes has the lines that the patches expect to find, and
others between them. So the tool and the patches are shown to go together; whether the
patches fit TensorFlow's real files is shown by `tools/apply_patches.py` on those.
"""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

from tests.support import ROOT

TOOL = ROOT / "tools" / "apply_patches.py"
SERIES = ROOT / "patches" / "tensorflow-2.21.0"
VERSION = "2.21.0"
PACKAGE = Path("third_party/xla/third_party/tf_malleable")
THREAD_POOL = Path("third_party/xla/xla/tsl/platform/threadpool.cc")
DEVICE_BASE = Path("tensorflow/core/framework/device_base.cc")


def patches() -> list[Path]:
    lines = (SERIES / "series").read_text().splitlines()
    return [SERIES / line for line in lines if not line.startswith("#")]


def old_sides(patch: str) -> dict[str, list[list[str]]]:
    """Return, file by file, the lines that each hunk expects."""
    files: dict[str, list[list[str]]] = {}
    for line in patch.splitlines():
        if found := re.match(r"--- a/(\S+)", line):
            hunks = files.setdefault(found.group(1), [])
        elif line.startswith("@@"):
            hunks.append([])
        elif files and hunks and line[:1] in (" ", "-"):
            hunks[-1].append(line[1:])
    return files


def make_tree(folder: Path, version: str = VERSION) -> Path:
    """Write the stand-in to a folder."""
    for patch in patches():
        for name, hunks in old_sides(patch.read_text()).items():
            file = folder / name
            file.parent.mkdir(parents=True, exist_ok=True)
            lines = ["// The beginning."]
            for number, hunk in enumerate(hunks):
                lines += [*hunk, *(f"// Between {number}.{line}" for line in range(20))]
            file.write_text("\n".join(lines) + "\n")
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
        timeout=60,
        **options,  # type: ignore[call-overload]
    )
