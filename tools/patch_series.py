# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""The patches for one version of TensorFlow, and what they add to its sources."""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass
from pathlib import Path

from releases import PATCHES, RELEASES

ROOT = Path(__file__).resolve().parent.parent
BUILD_FILE = PATCHES / "tf_malleable.BUILD"

# Paths in TensorFlow's tree. XLA is a Bazel repository of its own; it has the thread pools.
XLA = Path("third_party/xla")
PACKAGE = XLA / "third_party/tf_malleable"
EIGEN_PATCH = XLA / "third_party/eigen3/tf_malleable.patch"
VERSION_FILE = Path("tensorflow/tf_version.bzl")
# Written last and removed first, so if it exists, so does everything else.
STAMP = PACKAGE / "SERIES"

EIGEN_THREAD_POOL = "Eigen/src/ThreadPool"
EIGEN_HEADERS = tuple(sorted((ROOT / "cc" / "limits" / "eigen").glob("*.h")))


class SourcesError(Exception):
    """The sources cannot be used. One sentence: what is wrong, and what to do about it."""


@dataclass(frozen=True)
class Hunk:
    """One change of a patch.

    Attributes:
        file: Path in TensorFlow's tree.
        start: Number of its first line, from 1, in a tree with the patches before it.
        old: Lines that it expects there.
    """

    file: Path
    start: int
    old: tuple[str, ...]


@dataclass(frozen=True)
class Series:
    """The patches for one version of TensorFlow.

    Attributes:
        version: Version of TensorFlow, for example ``"2.21.0"``.
        folder: Folder with the series, and the facts about the files it changes.
        patches: Files of the patches, in the order in which they are applied.
        eigen_patch: Patch for this TensorFlow's Eigen.
    """

    version: str
    folder: Path
    patches: tuple[Path, ...]
    eigen_patch: Path

    @property
    def hunks(self) -> tuple[Hunk, ...]:
        """All changes to TensorFlow's own files, in order."""
        return tuple(hunk for patch in self.patches for hunk in read_hunks(patch))

    @property
    def files(self) -> tuple[Path, ...]:
        """TensorFlow's own files that the patches change, each once."""
        return tuple(dict.fromkeys(hunk.file for hunk in self.hunks))


def read_hunks(patch: Path) -> list[Hunk]:
    """Return the changes that a patch makes."""
    found = []
    for section in re.split(r"^--- a/", patch.read_text(), flags=re.MULTILINE)[1:]:
        name, *lines = section.splitlines()
        starts = [at for at, line in enumerate(lines) if line.startswith("@@")]
        for at, end in zip(starts, [*starts[1:], len(lines)], strict=True):
            old = (line[1:] for line in lines[at + 1 : end] if line[:1] in (" ", "-"))
            found.append(Hunk(Path(name), int(re.split("[-, ]", lines[at])[2]), tuple(old)))
    return found


def find_series(version: str) -> Series:
    """Return the patches for a version of TensorFlow.

    Raises:
        SourcesError: There are no patches for this version.
    """
    folder = PATCHES / f"tensorflow-{version}"
    listed = folder / "series"
    if not listed.is_file():
        known = sorted(path.parent.name.partition("-")[2] for path in PATCHES.glob("*/series"))
        raise SourcesError(
            f"there are no patches for TensorFlow {version}, only for {', '.join(known)}"
        )
    names = [line.split("#")[0].strip() for line in listed.read_text().splitlines()]
    return Series(
        version=version,
        folder=folder,
        patches=tuple((folder / name).resolve() for name in names if name),
        eigen_patch=eigen_patch(version),
    )


def eigen_patch(version: str) -> Path:
    """Return the patch for the Eigen of a TensorFlow.

    Args:
        version: Any release of a minor version that is supported, for example ``"2.21.0"``.

    Raises:
        SourcesError: This TensorFlow is not supported.
    """
    for release in RELEASES:
        if version.startswith(f"{release.minor}."):
            return release.eigen_patch
    supported = ", ".join(release.minor for release in RELEASES)
    raise SourcesError(f"tf_malleable supports TensorFlow {supported}, not {version}")


def read_version(tree: Path) -> str:
    """Return the version of the TensorFlow sources in a folder, for example ``"2.21.0"``.

    Raises:
        SourcesError: These are not TensorFlow's sources, or the version is missing.
    """
    try:
        text = (tree / VERSION_FILE).read_text()
    except OSError:
        raise SourcesError(
            f"{tree} is not a TensorFlow source tree supported here: it has no {VERSION_FILE}"
        ) from None
    found = re.search(r'^TF_VERSION = "([^"]+)"', text, re.MULTILINE)
    if found is None:
        raise SourcesError(f"{tree / VERSION_FILE} does not define TF_VERSION")
    return found.group(1)


def added_files(series: Series) -> dict[Path, str]:
    """Return the files that are added to the tree, with their contents."""
    sources = [
        path
        for folder in ("limits", "capi")
        for path in sorted((ROOT / "cc" / folder).rglob("*.*"))
        if path.suffix in (".h", ".cc")
    ]
    files = {PACKAGE / path.relative_to(ROOT): path.read_text() for path in sources}
    files[PACKAGE / "BUILD.bazel"] = BUILD_FILE.read_text().replace("@VERSION@", series.version)
    files[EIGEN_PATCH] = series.eigen_patch.read_text() + "".join(
        _new_file(f"{EIGEN_THREAD_POOL}/{path.name}", path.read_text()) for path in EIGEN_HEADERS
    )
    return files


def _new_file(name: str, text: str) -> str:
    lines = text.splitlines()
    body = "".join(f"+{line}\n" for line in lines)
    # Only Git's header ends the file before this one, for Bazel, which applies the patch.
    return (
        f"diff --git a/{name} b/{name}\nnew file mode 100644\n"
        f"--- /dev/null\n+++ b/{name}\n@@ -0,0 +1,{len(lines)} @@\n{body}"
    )


def digest(series: Series) -> str:
    """Return a digest of the series and the added files."""
    state = hashlib.sha256()
    for patch in series.patches:
        state.update(patch.read_bytes())
    for name, text in added_files(series).items():
        state.update(f"{name}\0{text}\0".encode())
    return state.hexdigest()
