#!/usr/bin/env python3
# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Apply tf_malleable's patches to TensorFlow's sources, or take them out again.

SOURCES is a checkout, or an archive that is first unpacked beside itself. All of the
patches apply or none does; a second time nothing is left to do.
"""

from __future__ import annotations

import argparse
import json
import shutil
import subprocess
import sys
import tarfile
import tempfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NoReturn

from patch_series import (
    EIGEN_PATCH,
    PACKAGE,
    STAMP,
    Series,
    SourcesError,
    added_files,
    digest,
    find_series,
    read_version,
)


@contextmanager
def patched_copies(tree: Path, series: Series, *, reverse: bool) -> Iterator[Path]:
    """Give a folder with the changed files as they are to become.

    Raises:
        SourcesError: A patch does not apply exactly.
    """
    with tempfile.TemporaryDirectory(prefix="tf_malleable-") as name:
        copies = Path(name)
        for file in dict.fromkeys(series.files):
            if not (tree / file).is_file():
                raise SourcesError(f"{tree} has no {file}; is it all of TensorFlow?")
            (copies / file).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(tree / file, copies / file)
        order = series.patches[::-1] if reverse else series.patches
        for patch in order:
            done = _patch(copies, patch, reverse=reverse)
            if done.returncode != 0:
                hunks = " ".join(x.strip() for x in done.stdout.splitlines() if "FAILED" in x)
                raise SourcesError(
                    f"{patch.name} does not fit {tree} exactly ({hunks}); it is for the"
                    f" unchanged sources of TensorFlow {series.version}"
                )
        yield copies


def _patch(folder: Path, patch: Path, *, reverse: bool) -> subprocess.CompletedProcess[str]:
    direction = "--reverse" if reverse else "--forward"
    command = ["patch", "-p1", "--fuzz=0", "--no-backup-if-mismatch", "--reject-file=-"]
    try:
        return subprocess.run(
            [*command, direction, f"--input={patch}"],
            cwd=folder,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
        )
    except FileNotFoundError:
        raise SourcesError("the program 'patch' is missing: apt-get install patch") from None


def check_untouched(tree: Path, series: Series) -> None:
    """Refuse a tree in which somebody stopped half-way, or did it by hand.

    Raises:
        SourcesError: Some of the files have patches in them.
    """
    files = (tree / file for file in dict.fromkeys(series.files))
    there = [file.name for file in files if file.is_file() and "tf_malleable" in file.read_text()]
    if there:
        raise SourcesError(
            f"{tree} is half patched ({', '.join(there)}); restore TensorFlow's own files"
            " (git checkout, or unpack them anew), then try again"
        )


def check_unchanged(tree: Path, series: Series) -> None:
    """Refuse a checkout with changes of the user's in the files concerned.

    Raises:
        SourcesError: There are some.
    """
    if not (tree / ".git").exists():
        return
    names = [str(file) for file in series.files]
    status = subprocess.run(
        ["git", "status", "--porcelain", "--", *names],
        cwd=tree,
        capture_output=True,
        text=True,
        check=False,
    )
    if status.returncode != 0:
        raise SourcesError(f"git cannot read {tree}: {status.stderr.strip()}")
    changed = [line[3:] for line in status.stdout.splitlines()]
    if changed:
        raise SourcesError(
            f"{tree} has uncommitted changes in {', '.join(changed)}; commit or stash them first"
        )


def _install(tree: Path, copies: Path, series: Series, added: dict[Path, str]) -> None:
    """Change the files, with the stamp absent meanwhile; on failure put all back."""
    stamp = tree / STAMP
    ready = {tree / file: _beside(tree / file) for file in series.files}
    before = {path: path.read_bytes() for path in (*ready, stamp) if path.exists()}
    try:
        # All that takes room on the disk comes before the first change.
        for name, text in added.items():
            (tree / name).parent.mkdir(parents=True, exist_ok=True)
            (tree / name).write_text(text)
        for file, new in ready.items():
            shutil.copy2(copies / file.relative_to(tree), new)
        if added:
            _beside(stamp).write_text(digest(series) + "\n")
        stamp.unlink(missing_ok=True)
        for file, new in ready.items():
            new.replace(file)
        if added:
            _beside(stamp).replace(stamp)
    except BaseException:
        for path, content in before.items():
            if not path.exists() or path.read_bytes() != content:
                path.write_bytes(content)
        if added:
            _remove_added(tree, series)
        raise


def _beside(file: Path) -> Path:
    return file.with_name(f"{file.name}.tf_malleable")


def _remove_added(tree: Path, series: Series) -> None:
    (tree / EIGEN_PATCH).unlink(missing_ok=True)
    for file in series.files:
        _beside(tree / file).unlink(missing_ok=True)
    # Last: by it reverse() knows that there is something left.
    shutil.rmtree(tree / PACKAGE, ignore_errors=True)


def is_patched(tree: Path, series: Series) -> bool:
    """Return whether the tree has the series.

    Raises:
        SourcesError: It has another state of it.
    """
    try:
        found = (tree / STAMP).read_text().strip()
    except FileNotFoundError:
        return False
    if found == digest(series):
        return True
    raise SourcesError(
        f"{tree} has another state of these patches; take that out first, with --reverse of the"
        " tf_malleable that put it there"
    )


def apply(tree: Path, series: Series, *, dry_run: bool) -> bool:
    """Apply the series; return False if it was there already.

    Raises:
        SourcesError: The tree is not what the patches are for. It is as it was.
    """
    if is_patched(tree, series):
        return False
    check_untouched(tree, series)
    check_unchanged(tree, series)
    with patched_copies(tree, series, reverse=False) as copies:
        if not dry_run:
            _install(tree, copies, series, added_files(series))
    return True


def reverse(tree: Path, series: Series, *, dry_run: bool) -> bool:
    """Take the series out; return False if it was not there.

    Raises:
        SourcesError: The tree has it, but changed. It is as it was.
    """
    if is_patched(tree, series):
        with patched_copies(tree, series, reverse=True) as copies:
            if not dry_run:
                _install(tree, copies, series, {})
    else:
        check_untouched(tree, series)
        # Without a stamp these are left of one that was killed.
        if not (tree / PACKAGE).exists():
            return False
    if not dry_run:
        _remove_added(tree, series)
    return True


@contextmanager
def source_tree(sources: Path, *, keep: bool) -> Iterator[Path]:
    """Give the folder of these sources.

    One that is unpacked for it stays if it is to be kept and could be used.
    """
    if sources.is_dir():
        yield sources
        return
    if not sources.is_file():
        raise SourcesError(f"there is no {sources}")
    tree = unpack(sources)
    try:
        yield tree
    except BaseException:
        keep = False
        raise
    finally:
        if not keep:
            shutil.rmtree(tree, ignore_errors=True)


def unpack(archive: Path) -> Path:
    """Unpack an archive of TensorFlow's beside itself; return the folder.

    Raises:
        SourcesError: It is none, or its folder is there already.
    """
    try:
        with tarfile.open(archive) as tar:
            names = {Path(member.name).parts[0] for member in tar if Path(member.name).parts}
            if len(names) != 1:
                raise SourcesError(f"{archive} is no archive of TensorFlow's sources")
            folder = archive.absolute().parent / names.pop()
            if folder.exists():
                raise SourcesError(f"{folder} exists; name it, or remove it")
            with tempfile.TemporaryDirectory(dir=folder.parent, prefix=".unpack-") as room:
                tar.extractall(room, filter="data")
                (Path(room) / folder.name).rename(folder)
            return folder
    except (tarfile.TarError, EOFError, zlib.error):
        raise SourcesError(f"{archive} is no tar archive, or not all of one") from None


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        self.exit(2, f"{self.prog}: {message}\n")


def main() -> int:
    """Do what the command line says."""
    parser = _Parser(description=__doc__)
    parser.add_argument("sources", type=Path, metavar="SOURCES")
    parser.add_argument("--reverse", action="store_true", help="take the patches out")
    parser.add_argument("--dry-run", action="store_true", help="only say what would happen")
    parser.add_argument("--json", action="store_true", help="say it in JSON")
    arguments = parser.parse_args()
    act = reverse if arguments.reverse else apply
    try:
        with source_tree(arguments.sources, keep=not arguments.dry_run) as tree:
            series = find_series(read_version(tree))
            changed = act(tree, series, dry_run=arguments.dry_run)
    except (SourcesError, OSError) as error:
        print(f"apply_patches: {error}", file=sys.stderr)
        return 2 if isinstance(error, SourcesError) else 1
    except KeyboardInterrupt:
        print("apply_patches: interrupted", file=sys.stderr)
        return 130
    if arguments.json:
        files = [str(file) for file in dict.fromkeys(series.files)] if changed else []
        result = {"tree": str(tree), "version": series.version, "changed": changed, "files": files}
        print(json.dumps({**result, "dry_run": arguments.dry_run}))
        return 0
    what = "patched" if not arguments.reverse else "as TensorFlow's authors made it"
    if arguments.dry_run and changed:
        print(f"{tree}: would be {what}")
    else:
        print(f"{tree}: {what}" if changed else f"{tree}: {what} already")
    return 0


if __name__ == "__main__":
    sys.exit(main())
