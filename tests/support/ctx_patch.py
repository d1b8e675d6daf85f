# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""What Bazel makes of our patches if it applies them itself.

    PYTHONPATH=tools python -m tests.support.ctx_patch TREE OUT

writes to the new folder OUT what Bazel makes of the files of TREE, TensorFlow's sources, that
the series for it changes.
"""

from __future__ import annotations

import json
import shutil
import sys
import tempfile
from collections.abc import Iterable
from pathlib import Path

from tests.support.bazel import bazel

# As TensorFlow's tf_http_archive does it.
_RULE = """
def _patched_impl(ctx):
    done = ctx.execute(["cp", "-r", ctx.attr.tree + "/.", "."])
    if done.return_code != 0:
        fail(done.stderr)
    for patch in ctx.attr.patches:
        ctx.patch(patch, strip = 1)

patched = repository_rule(
    implementation = _patched_impl,
    attrs = {"patches": attr.string_list(), "tree": attr.string()},
)
"""


def apply_by_bazel(tree: Path, patches: Iterable[Path], out: Path) -> str:
    """Let Bazel apply patches to a copy of a tree, in order; return what it complains about.

    If that is not empty, there is no `out`.
    """
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        workspace = folder / "workspace"
        workspace.mkdir()
        (workspace / "BUILD").touch()
        (workspace / "patched.bzl").write_text(_RULE)
        (workspace / "WORKSPACE").write_text(
            'load("//:patched.bzl", "patched")\n'
            f'patched(name = "patched", tree = {json.dumps(str(tree.resolve()))},'
            f" patches = {json.dumps([str(patch.resolve()) for patch in patches])})\n"
        )
        done = bazel(folder, "sync", "--only=patched")
        if done.returncode != 0:
            return done.stderr
        (made,) = (folder / "cache").glob("*/external/patched")
        shutil.copytree(made, out)
        # What Bazel itself adds to a repository.
        for added in ("REPO.bazel", "WORKSPACE"):
            if not (tree / added).exists():
                (out / added).unlink(missing_ok=True)
    return ""


def main() -> str | None:
    from patch_series import find_series, read_version

    tree, out = map(Path, sys.argv[1:])
    series = find_series(read_version(tree))
    with tempfile.TemporaryDirectory() as name:
        copies = Path(name)
        for file in series.files:
            (copies / file).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(tree / file, copies / file)
        return apply_by_bazel(copies, series.patches, out) or None


if __name__ == "__main__":
    sys.exit(main())
