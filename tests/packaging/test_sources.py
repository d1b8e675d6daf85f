# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""What is shipped builds, and the patches apply as they are."""

from __future__ import annotations

import shutil
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest
from patch_series import eigen_patch

from tf_malleable.runtime.tensorflow_install import find_tensorflow

ROOT = Path(__file__).parents[2]
PATCHES = ROOT / "patches" / "eigen"


def run(*command: str | Path, cwd: Path = ROOT) -> str:
    result = subprocess.run(
        [str(part) for part in command], cwd=cwd, capture_output=True, text=True, check=False
    )
    assert result.returncode == 0, result.stdout + result.stderr
    return result.stdout


@pytest.fixture
def tensorflow():
    found = find_tensorflow()
    assert found is not None
    return found


@pytest.fixture
def eigen(tmp_path, tensorflow):
    """Return a tree with the installed TensorFlow's own pool header."""
    header = Path("Eigen/src/ThreadPool/NonBlockingThreadPool.h")
    (tmp_path / header).parent.mkdir(parents=True)
    shutil.copy(tensorflow.directory / "include" / header, tmp_path / header)
    return tmp_path


def test_the_eigen_patch_applies_without_fuzz_and_reverses(eigen, tensorflow):
    header = eigen / "Eigen/src/ThreadPool/NonBlockingThreadPool.h"
    before = header.read_text()
    apply = ["patch", "-p1", "--fuzz=0", "-i", eigen_patch(tensorflow.version)]
    run(*apply, "--dry-run", cwd=eigen)
    run(*apply, cwd=eigen)
    assert "WorkerHooks::Park" in header.read_text()
    run(*apply, "-R", cwd=eigen)
    assert header.read_text() == before


@pytest.mark.parametrize("patch", sorted(PATCHES.glob("*.patch")), ids=lambda path: path.name)
def test_patches_stay_small(patch):
    changed = [
        line
        for line in patch.read_text().splitlines()
        if line[:1] in "+-" and not line.startswith(("+++", "---"))
    ]
    assert 20 <= len([line for line in changed if line]) <= 60


@pytest.mark.slow
def test_the_sdist_builds_a_wheel(tmp_path, tensorflow):
    build = "import sys; from scikit_build_core.build import build_sdist; build_sdist(sys.argv[1])"
    run(sys.executable, "-c", build, tmp_path)
    (sdist,) = tmp_path.glob("*.tar.gz")
    assert sdist.stat().st_size < 1_000_000
    with tarfile.open(sdist) as archive:
        tops = {Path(name).parts[1] for name in archive.getnames()}
    assert tops >= {"CMakeLists.txt", "LICENSE", "README.md", "cc", "patches", "python"}
    assert not tops & {".ci", ".github", "benchmarks", "build", "dist", "docs", "tests", "tools"}
    pip = [sys.executable, "-m", "pip", "wheel", "-q", "--no-deps", "--no-build-isolation"]
    # Compiled, but not optimised: it is not run here.
    run(*pip, "-C", "cmake.build-type=Debug", "-w", tmp_path, sdist)
    (wheel,) = tmp_path.glob("*.whl")
    names = zipfile.ZipFile(wheel).namelist()
    for needed in (
        f"runtime/libtf_malleable_overlay-{tensorflow.minor}.so",
        "cli/cluster/manifests.yaml",
        "cli/services/units/system.service",
        "cli/services/units/user.service",
        "preload/sitecustomize.py",
        "py.typed",
    ):
        assert f"tf_malleable/{needed}" in names
    assert any(
        name.startswith("tf_malleable/runtime/_native") and name.endswith(".so") for name in names
    )
    # Where no PYTHONPATH leads to the folder preload/.
    assert {"_tf_malleable_preload.py", "_tf_malleable_threadpoolctl.py"} <= set(names)
    assert any(name.endswith("LICENSE") for name in names)
