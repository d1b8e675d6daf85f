#!/usr/bin/env python3
# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Facts about TensorFlow's own files that the patches change: hashes, never their text.

They are taken from the sources themselves, so that a tree, and a patch, can be checked against
something that neither of them says. Each series has them in ``originals.json``. Run as a program,
this prints them for the sources in a folder.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from patch_series import Hunk, Series, SourcesError, find_series, read_version

FACTS = "originals.json"
State = Literal["same", "similar", "different", "missing"]


def line_hash(line: str) -> str:
    """Return the first 64 bits of a line's SHA-256, in hexadecimal."""
    return hashlib.sha256(line.encode()).hexdigest()[:16]


@dataclass(frozen=True)
class FileFacts:
    """Facts about one of TensorFlow's files, before any patch.

    Attributes:
        origin: Name of the sources that it was taken from, explained in ``originals.json``.
        sha256: SHA-256 of the whole file.
        lines: Number of lines.
        context: Hash of each line that a patch expects, by line number from 1.
    """

    origin: str
    sha256: str
    lines: int
    context: dict[int, str]

    @property
    def runs(self) -> list[list[int]]:
        """Line numbers in the context, those that follow each other together."""
        runs: list[list[int]] = []
        for number in sorted(self.context):
            if runs and runs[-1][-1] == number - 1:
                runs[-1].append(number)
            else:
                runs.append([number])
        return runs


@dataclass(frozen=True)
class FileState:
    """How a file of a tree compares with what was recorded.

    Attributes:
        file: Path in the tree.
        state: "same": it is the recorded file. "similar": another one that has all lines of the
            context. "different": one that lacks some of them.
        moved: Distances, in lines, by which parts of the context have moved; only if "similar".
        lacking: Recorded numbers of lines that it lacks; only if "different".
    """

    file: Path
    state: State
    moved: tuple[int, ...] = ()
    lacking: tuple[int, ...] = ()

    @property
    def usable(self) -> bool:
        """Whether patches that fit the recorded file fit this one."""
        return self.state in ("same", "similar")

    def __str__(self) -> str:
        moved = f", moved by {_listed(self.moved)}" if any(self.moved) else ""
        return (
            f"{self.file}: "
            + {
                "same": "the recorded file",
                "similar": f"another file, with all lines that the patches expect{moved}",
                "different": f"lacks what the patches expect in lines {_listed(self.lacking)}",
                "missing": "missing",
            }[self.state]
        )


def _listed(numbers: tuple[int, ...]) -> str:
    return ", ".join(map(str, numbers))


@dataclass(frozen=True)
class Facts:
    """All that was recorded of one release.

    Attributes:
        archive: Address and SHA-256 of the archive of its sources; empty if there is none yet.
        bazel: Major version of the Bazel that builds it.
        recipe: Names that `tools/build_tensorflow.sh` relies on, by the file that has them.
        files: Files that the patches change, by path.
    """

    archive: dict[str, str]
    bazel: str
    recipe: dict[Path, list[str]]
    files: dict[Path, FileFacts]


def read_facts(series: Series) -> Facts:
    """Return what was recorded of the release that a series is for."""
    facts = json.loads((series.folder / FACTS).read_text())
    files = {
        Path(name): FileFacts(
            file["origin"],
            file["sha256"],
            file["lines"],
            {int(number): found for number, found in file["context"].items()},
        )
        for name, file in facts["files"].items()
    }
    recipe = {Path(name): names for name, names in facts["recipe"].items()}
    return Facts(facts["archive"], facts["bazel"], recipe, files)


def check(tree: Path, series: Series) -> list[FileState]:
    """Compare each file that a series changes with what was recorded of the original."""
    return [_check_file(tree, name, facts) for name, facts in read_facts(series).files.items()]


def check_recipe(tree: Path, series: Series) -> list[str]:
    """Return what `tools/build_tensorflow.sh` relies on and a tree lacks, as ``file: name``."""
    lacking = []
    for name, wanted in read_facts(series).recipe.items():
        text = (tree / name).read_text() if (tree / name).is_file() else ""
        lacking += [f"{name}: {each}" for each in wanted if each not in text]
    return lacking


def _check_file(tree: Path, name: Path, facts: FileFacts) -> FileState:
    try:
        content = (tree / name).read_bytes()
    except FileNotFoundError:
        return FileState(name, "missing")
    if hashlib.sha256(content).hexdigest() == facts.sha256:
        return FileState(name, "same")
    hashes = [line_hash(line) for line in content.decode(errors="replace").split("\n")]
    moved, lacking = set(), []
    for run in facts.runs:
        wanted = [facts.context[number] for number in run]
        distance = _nearest(hashes, wanted, run[0])
        if distance is None:
            lacking += run
        else:
            moved.add(distance)
    if lacking:
        return FileState(name, "different", lacking=tuple(lacking))
    return FileState(name, "similar", moved=tuple(sorted(moved)))


def _nearest(lines: list[str], wanted: list[str], number: int) -> int | None:
    """Return how far from a line number some lines are found, as `patch` looks for them."""
    size = len(wanted)
    found = [at for at in range(len(lines) - size + 1) if lines[at : at + size] == wanted]
    return min((at + 1 - number for at in found), key=abs, default=None)


def record(tree: Path, series: Series) -> dict[str, object]:
    """Return the facts about a tree's files, as they stand in ``originals.json``.

    Raises:
        SourcesError: A file is missing, or lacks the lines that a patch expects.
    """
    expected: dict[Path, list[Hunk]] = {}
    for hunk in series.hunks:
        expected.setdefault(hunk.file, []).append(hunk)
    files = {}
    for name, hunks in sorted(expected.items()):
        try:
            content = (tree / name).read_bytes()
        except FileNotFoundError:
            raise SourcesError(f"{tree} has no {name}") from None
        lines = content.decode().split("\n")
        context = {}
        for hunk in hunks:
            distance = _nearest(lines, list(hunk.old), hunk.start)
            if distance is None:
                raise SourcesError(f"{tree / name} has no line {hunk.old[0].strip()!r}")
            for offset, line in enumerate(hunk.old):
                context[hunk.start + distance + offset] = line_hash(line)
        files[str(name)] = {
            "origin": "",
            "sha256": hashlib.sha256(content).hexdigest(),
            "lines": len(lines) - 1,
            "context": {str(number): context[number] for number in sorted(context)},
        }
    return {"origins": {}, "files": files}


def main() -> int:
    """Run the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    what = parser.add_mutually_exclusive_group(required=True)
    what.add_argument("tree", nargs="?", type=Path, help="TensorFlow's unpatched sources")
    what.add_argument(
        "--release", metavar="VERSION", help="print its Bazel, and the archive of its sources"
    )
    arguments = parser.parse_args()
    try:
        if arguments.release:
            facts = read_facts(find_series(arguments.release))
            print(facts.bazel, facts.archive.get("url", ""), facts.archive.get("sha256", ""))
        else:
            series = find_series(read_version(arguments.tree))
            print(json.dumps(record(arguments.tree, series), indent=1))
    except (SourcesError, OSError) as error:
        print(f"source_facts: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
