# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""What Bazel builds is what CMake builds. `make bazel-test` runs this after the build."""

from __future__ import annotations

import ctypes
import hashlib
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path

import pytest

import tf_malleable
from tests.support.bazel import RUN_BAZEL, bazel
from tests.support.trees import PACKAGE, THREAD_POOL, make_tree
from tf_malleable.runtime.tensorflow_install import find_tensorflow

ROOT = Path(__file__).parents[2]
WITH_BAZEL = ROOT / "build" / "bazel-bin" / "python" / "tf_malleable" / "runtime"
WITH_CMAKE = Path(tf_malleable.__file__).parent / "runtime"


def exported(library: Path) -> set[str]:
    """Return the names a library defines, with their kinds."""
    command = ["nm", "--dynamic", "--defined-only", "--extern-only", "--format=posix", str(library)]
    output = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    return {" ".join(line.split()[:2]) for line in output.splitlines()}


def test_the_overlay_exports_the_same_symbols():
    (overlay,) = (path.name for path in WITH_CMAKE.glob("libtf_malleable_overlay-*.so"))
    found = exported(WITH_BAZEL / overlay)
    assert "tfm_set_threads T" in found
    assert found == exported(WITH_CMAKE / overlay)


def test_the_python_module_exports_the_same_symbols():
    (cmake,) = WITH_CMAKE.glob("_native.*.so")
    assert exported(WITH_BAZEL / "_native.so") == exported(cmake) == {"PyInit__native T"}


def test_the_overlay_says_the_same_tensorflow():
    (with_cmake,) = WITH_CMAKE.glob("libtf_malleable_overlay-*.so")
    found = find_tensorflow()
    assert found is not None
    said = []
    for path in (with_cmake, WITH_BAZEL / with_cmake.name):
        version = ctypes.CDLL(str(path)).tfm_tensorflow_version
        version.restype = ctypes.c_char_p
        said.append(version())
    assert said == [found.version.encode()] * 2


def workspace(folder: Path, version: str) -> Path:
    """Write a workspace that fetches a stand-in for TensorFlow's sources."""
    name = f"tensorflow-{version}"
    archive = folder / "v.tar.gz"
    with tarfile.open(archive, "w:gz") as tar:
        tar.add(make_tree(folder / name, version), name)
    (folder / "workspace").mkdir()
    (folder / "workspace" / "WORKSPACE").write_text(
        f"""
local_repository(name = "tf_malleable", path = "{ROOT}")
load("@tf_malleable//third_party/tensorflow:source.bzl", "tensorflow_source")
tensorflow_source(
    name = "tensorflow_source",
    sha256 = "{hashlib.sha256(archive.read_bytes()).hexdigest()}",
    strip_prefix = "{name}",
    urls = ["file://{archive}"],
)
"""
    )
    return folder


def test_the_sources_are_fetched_with_the_patches(tmp_path):
    done = bazel(workspace(tmp_path, "2.21.0"), "sync", "--only=tensorflow_source")
    assert done.returncode == 0, done.stderr
    (fetched,) = (tmp_path / "cache").glob("*/external/tensorflow_source")
    assert "tf_malleable::HandedOut" in (fetched / THREAD_POOL).read_text()
    assert (fetched / PACKAGE / "cc/limits/hooks.cc").is_file()


def test_sources_of_another_version_are_refused(tmp_path):
    done = bazel(workspace(tmp_path, "2.30.0"), "sync", "--only=tensorflow_source")
    assert done.returncode != 0
    assert "there are no patches for TensorFlow 2.30.0, only for 2.21.0" in done.stderr


def fake_bazel(folder: Path, says: str) -> str:
    """Write a Bazel that only says its version; return a PATH with it in front."""
    folder.mkdir()
    (folder / "bazel").write_text(f"#!/bin/sh\necho {says}\n")
    (folder / "bazel").chmod(0o755)
    return f"{folder}:{os.environ['PATH']}"


@pytest.mark.parametrize("version", ["3.7.2", "8.1.0"])
def test_a_wrong_bazel_is_refused(tmp_path, version):
    path = fake_bazel(tmp_path / "bin", f"bazel {version}")
    done = subprocess.run(
        [str(ROOT / "tools/bazel.sh"), "test", sys.executable],
        env={**os.environ, "PATH": path},
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert done.returncode == 2
    assert done.stderr == (
        f"bazel {version} cannot build this: install 4.2 (Debian's bazel-bootstrap) or 7\n"
    )


@pytest.mark.parametrize(
    ("version", "flags"), [("4.2.3", []), ("7.4.1", ["--noenable_bzlmod"])], ids=["4", "7"]
)
def test_each_bazel_gets_the_flags_that_it_needs(tmp_path, version, flags):
    """Right after its command, before which there may be options of Bazel itself."""
    path = fake_bazel(tmp_path / "bin", f'bazel {version} "$@"')
    done = subprocess.run(
        [RUN_BAZEL, "--batch", "--a=b c", "build", "//cc/limits", "test"],
        env={**os.environ, "PATH": path},
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    said = f"bazel {version} --batch --a=b c build {' '.join([*flags, '//cc/limits'])} test\n"
    assert done.stdout == said


def test_without_tensorflow_the_build_says_what_to_install(tmp_path):
    """As a Python that has none."""
    options = [f"--output_user_root={tmp_path}", "build", "--symlink_prefix=/"]
    done = subprocess.run(
        [RUN_BAZEL, "--batch", *options, "//cc/limits"],
        cwd=ROOT,
        env={**os.environ, "PYTHON_BIN_PATH": "/usr/bin/python3"},
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert done.returncode != 0
    assert "/usr/bin/python3 has none: pip install tensorflow" in done.stderr
    assert not (ROOT / "MODULE.bazel").exists()


@pytest.mark.skipif(os.geteuid() != 0, reason="becomes an ordinary user")
def test_without_bazel_an_ordinary_user_is_told_what_to_install():
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        folder.chmod(0o755)
        for program in ("sh", "dirname", "realpath", "id"):
            (folder / program).symlink_to(str(shutil.which(program)))
        tool = folder / "bazel.sh"
        for copied in (tool, folder / "run_bazel.sh"):
            shutil.copy2(ROOT / "tools" / copied.name, copied)
        done = subprocess.run(
            [str(tool), "test", "/usr/bin/python3"],
            env={"PATH": str(folder)},
            user=65534,
            capture_output=True,
            text=True,
            check=False,
            timeout=60,
        )
    assert done.returncode == 2
    assert "sudo apt-get install --no-install-recommends bazel-bootstrap" in done.stderr
