# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""A stand-in for a TensorFlow that was built with the patches.

Building one takes hours. This is the installed TensorFlow with another
libtensorflow_framework in front of its own: one that has the overlay's functions, which
call what the patches call, and the C ABI. So what is tested is real: TensorFlow, its
pools, the ABI and our Python; only how the functions got into the library is not.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tf_malleable.runtime.library import FRAMEWORK
from tf_malleable.runtime.tensorflow_install import find_tensorflow

ROOT = Path(__file__).parents[2]
BUILD = ROOT / "build" / "stand-in"
STOCK = "libtensorflow_framework_stock.so.2"


def cmake(*arguments: object, **environment: str) -> str:
    """Run CMake, that of this Python's environment if it has one."""
    program = shutil.which("cmake", path=f"{Path(sys.executable).parent}:{os.environ['PATH']}")
    assert program is not None
    done = subprocess.run(
        [program, *map(str, arguments)],
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def build() -> Path:
    """Build the library, with what CMake finds of an earlier time."""
    options = ("OVERLAY=OFF", "TESTS=OFF", "STAND_IN=ON")
    options = tuple(f"-DTF_MALLEABLE_BUILD_{option}" for option in options)
    cmake("-S", ROOT, "-B", BUILD, f"-DPython_EXECUTABLE={sys.executable}", *options)
    cmake("--build", BUILD, "--target", "stand_in")
    return BUILD / FRAMEWORK


@pytest.fixture(scope="session")
def patched_tensorflow(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Give a folder for PYTHONPATH in which there is such a TensorFlow."""
    found = find_tensorflow()
    assert found is not None
    folder = tmp_path_factory.mktemp("patched")
    shutil.copytree(found.directory, folder / "tensorflow", copy_function=os.symlink)
    for metadata in found.directory.parent.glob("tensorflow*.dist-info"):
        shutil.copytree(metadata, folder / metadata.name, copy_function=os.symlink)
    # Its headers have Eigen's patch as well.
    pool = folder / "tensorflow" / "include" / "Eigen" / "src" / "ThreadPool"
    library = folder / "tensorflow" / FRAMEWORK
    library.rename(library.with_name(STOCK))
    shutil.copy2(build(), library)
    (patched,) = BUILD.glob("eigen-*/Eigen/src/ThreadPool")
    ours = [path.name for path in (ROOT / "cc" / "limits" / "eigen").glob("*.h")]
    for header in ("NonBlockingThreadPool.h", *ours):
        (pool / header).unlink(missing_ok=True)
        shutil.copy2(patched / header, pool)
    return folder


@pytest.fixture
def installed(patched_tensorflow: Path, tmp_path: Path) -> Path:
    """Give a folder with what `pip install .` compiles beside such a TensorFlow."""
    pybind11 = subprocess.run(
        [sys.executable, "-m", "pybind11", "--cmakedir"], capture_output=True, text=True, check=True
    ).stdout.strip()
    options = (
        f"-DPython_EXECUTABLE={sys.executable}",
        f"-Dpybind11_DIR={pybind11}",
        # It is the Python module only, whose speed is not looked at here.
        "-DCMAKE_BUILD_TYPE=Debug",
    )
    path = {"PYTHONPATH": str(patched_tensorflow)}
    said = cmake("-S", ROOT, "-B", tmp_path / "build", *options, **path)
    assert "It was built with the patches: no overlay is needed" in said
    cmake("--build", tmp_path / "build")
    cmake("--install", tmp_path / "build", "--prefix", tmp_path / "installed")
    return tmp_path / "installed" / "tf_malleable"
