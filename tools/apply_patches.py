#!/usr/bin/env python3
# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Apply tf_malleable's patches to TensorFlow's sources, or remove them.

SOURCES is a source tree, or an archive, which is first unpacked into its own folder.
Either all patches are applied or none. Doing it twice has no further effect.
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
from dataclasses import asdict
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
from source_facts import check, check_recipe


@contextmanager
def patched_copies(tree: Path, series: Series, *, reverse: bool) -> Iterator[Path]:
    """Yield a temporary folder with the changed files.

    Raises:
        SourcesError: A patch does not apply exactly.
    """
    with tempfile.TemporaryDirectory(prefix="tf_malleable-") as name:
        copies = Path(name)
        for file in series.files:
            if not (tree / file).is_file():
                raise SourcesError(f"{tree} has no {file}: use TensorFlow's complete sources")
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
    """Refuse a tree that is partly patched, or was patched by hand.

    Raises:
        SourcesError: Some of the files are patched.
    """
    files = (tree / file for file in series.files)
    there = [file.name for file in files if file.is_file() and "tf_malleable" in file.read_text()]
    if there:
        raise SourcesError(
            f"{tree} is partly patched ({', '.join(there)}); restore TensorFlow's own files"
            " (with git checkout, or by unpacking them again), then try again"
        )


def check_unchanged(tree: Path, series: Series) -> None:
    """Refuse a checkout in which the user has changed the files to be patched.

    Raises:
        SourcesError: There are uncommitted changes, or git fails.
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
    """Change the files; on failure restore them. The stamp is absent meanwhile."""
    stamp = tree / STAMP
    ready = {tree / file: _beside(tree / file) for file in series.files}
    before = {path: path.read_bytes() for path in (*ready, stamp) if path.exists()}
    try:
        # Everything that needs disk space is written before the first change.
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
    # Last, as it tells reverse() that something is left.
    shutil.rmtree(tree / PACKAGE, ignore_errors=True)


def is_patched(tree: Path, series: Series) -> bool:
    """Return whether the tree has the patches.

    Raises:
        SourcesError: It has a different version of them.
    """
    try:
        found = (tree / STAMP).read_text().strip()
    except FileNotFoundError:
        return False
    if found == digest(series):
        return True
    raise SourcesError(
        f"{tree} has a different version of these patches; first remove it, with --reverse of the"
        " tf_malleable that applied it"
    )


def apply(tree: Path, series: Series, *, dry_run: bool) -> bool:
    """Apply the series; return False if it was already applied.

    Raises:
        SourcesError: The patches do not fit this tree. It is unchanged.
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
    """Remove the series; return False if it was not there.

    Raises:
        SourcesError: The patched files have been changed. The tree is unchanged.
    """
    if is_patched(tree, series):
        with patched_copies(tree, series, reverse=True) as copies:
            if not dry_run:
                _install(tree, copies, series, {})
    else:
        check_untouched(tree, series)
        # Without the stamp, these were left by a run that was killed.
        if not (tree / PACKAGE).exists():
            return False
    if not dry_run:
        _remove_added(tree, series)
    return True


@contextmanager
def source_tree(sources: Path, *, keep: bool) -> Iterator[Path]:
    """Yield the folder of these sources.

    A folder that was unpacked for this is deleted if `keep` is False or an error occurs.
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
    """Unpack an archive of TensorFlow's sources into its own folder; return the new folder.

    Raises:
        SourcesError: It is not such an archive, or the new folder exists already.
    """
    try:
        with tarfile.open(archive) as tar:
            paths = [Path(member.name) for member in tar if Path(member.name).parts]
            for path in paths:
                if path.is_absolute() or ".." in path.parts:
                    raise SourcesError(
                        f"{archive} has a member {str(path)!r}, which may lie outside its"
                        " folder; names must be relative and have no .."
                    )
            names = {path.parts[0] for path in paths}
            if len(names) != 1:
                raise SourcesError(f"{archive} is not an archive of TensorFlow's sources")
            folder = archive.absolute().parent / names.pop()
            if folder.exists():
                raise SourcesError(f"{folder} exists already: give that as SOURCES, or remove it")
            with tempfile.TemporaryDirectory(dir=folder.parent, prefix=".unpack-") as room:
                # Debian 12's Python, 3.11.2, has no filters yet.
                if hasattr(tarfile, "data_filter"):
                    tar.extractall(room, filter="data")
                else:
                    tar.extractall(room)
                (Path(room) / folder.name).rename(folder)
            return folder
    except (tarfile.TarError, EOFError, zlib.error):
        raise SourcesError(f"{archive} is not a tar archive, or is incomplete") from None


def _compare(tree: Path, series: Series, *, as_json: bool) -> int:
    """Print how a tree compares with what was recorded; return the exit status.

    Raises:
        SourcesError: The tree has the patches, or some of them.
    """
    if is_patched(tree, series):
        raise SourcesError(f"{tree} is patched, and only TensorFlow's own files can be compared")
    check_untouched(tree, series)
    states, lacking = check(tree, series), check_recipe(tree, series)
    if as_json:
        files = [{**asdict(state), "file": str(state.file)} for state in states]
        print(json.dumps({"tree": str(tree), "files": files, "recipe_lacks": lacking}))
    else:
        print(*states, *(f"{each} is missing, which the build needs" for each in lacking), sep="\n")
    return 0 if all(state.usable for state in states) and not lacking else 2


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        self.exit(2, f"{self.prog}: {message}\n")


def main() -> int:
    """Run the command line."""
    parser = _Parser(description=__doc__)
    parser.add_argument("sources", type=Path, metavar="SOURCES")
    parser.add_argument("--reverse", action="store_true", help="remove the patches")
    parser.add_argument("--dry-run", action="store_true", help="only print what would be done")
    parser.add_argument(
        "--check", action="store_true", help="compare with facts recorded of TensorFlow's own files"
    )
    parser.add_argument("--json", action="store_true", help="print the result as JSON")
    arguments = parser.parse_args()
    if arguments.check and (arguments.reverse or arguments.dry_run):
        parser.error("--check changes nothing, so --reverse and --dry-run do not go with it")
    act = reverse if arguments.reverse else apply
    keep = not (arguments.dry_run or arguments.check)
    try:
        with source_tree(arguments.sources, keep=keep) as tree:
            series = find_series(read_version(tree))
            if arguments.check:
                return _compare(tree, series, as_json=arguments.json)
            changed = act(tree, series, dry_run=arguments.dry_run)
    except (SourcesError, OSError) as error:
        print(f"apply_patches: {error}", file=sys.stderr)
        return 2 if isinstance(error, SourcesError) else 1
    except KeyboardInterrupt:
        print("apply_patches: interrupted", file=sys.stderr)
        return 130
    if arguments.json:
        files = [str(file) for file in series.files] if changed else []
        result = {"tree": str(tree), "version": series.version, "changed": changed, "files": files}
        print(json.dumps({**result, "dry_run": arguments.dry_run}))
        return 0
    what = "patched" if not arguments.reverse else "unpatched"
    if arguments.dry_run and changed:
        print(f"{tree}: would be {what}")
    else:
        print(f"{tree}: {what}" if changed else f"{tree}: already {what}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
