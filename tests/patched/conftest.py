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


def build() -> Path:
    """Build the library, with what CMake finds of an earlier time."""
    cmake = shutil.which("cmake", path=f"{Path(sys.executable).parent}:{os.environ['PATH']}")
    assert cmake is not None
    options = ("OVERLAY=OFF", "TESTS=OFF", "STAND_IN=ON")
    configure = [f"-DTF_MALLEABLE_BUILD_{option}" for option in options]
    for command in (
        [cmake, "-S", ROOT, "-B", BUILD, f"-DPython_EXECUTABLE={sys.executable}", *configure],
        [cmake, "--build", BUILD, "--target", "stand_in"],
    ):
        done = subprocess.run(
            [str(word) for word in command], capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stdout + done.stderr
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
    library = folder / "tensorflow" / FRAMEWORK
    library.rename(library.with_name(STOCK))
    shutil.copy2(build(), library)
    return folder
