# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""The wheel that `make dist` built: with each TensorFlow, installed in any order.

Each environment is new, and has no compiler on its PATH.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
import venv
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from releases import RELEASES

ROOT = Path(__file__).parents[2]
SMOKE = Path(__file__).parent / "smoke.py"
TENSORFLOWS = [release.version for release in RELEASES]
MINORS = [release.minor for release in RELEASES]
IMPORT = """
try:
    import tf_malleable as tfm
    print(tfm.backend(), tfm.pools())
except ImportError as error:
    print(error)
"""

pytestmark = pytest.mark.timeout(1200)


@pytest.fixture(scope="session")
def wheel() -> Path:
    tag = f"cp{sys.version_info.major}{sys.version_info.minor}"
    found = list((ROOT / "dist").glob(f"tf_malleable-*-{tag}-{tag}-*.whl"))
    assert len(found) == 1, "make dist comes first"
    return found[0]


class Environment:
    """A virtual environment that sees no program but its own."""

    def __init__(self, folder: Path) -> None:
        self._programs = folder / "bin"
        venv.create(folder, symlinks=True, with_pip=False)

    def install(self, *packages: str | Path) -> None:
        install = [ROOT / "tools" / "install.sh", self._programs / "python", "--only-binary=:all:"]
        subprocess.run([*install, *packages], cwd=ROOT, check=True, timeout=600)

    def python(self, *arguments: str | Path, **environment: str) -> str:
        """Run Python and return what it prints."""
        return self._run(self._programs / "python", *arguments, **environment)

    def _run(self, *command: str | Path, **environment: str) -> str:
        result = subprocess.run(
            [str(part) for part in command],
            env={**os.environ, "PATH": str(self._programs), **environment},
            capture_output=True,
            text=True,
            timeout=600,
            check=False,
        )
        assert result.returncode == 0, result.stdout + result.stderr
        return result.stdout

    def smoke(self, version: str, *starts: str) -> None:
        """Hold the main promises, started with each of these limits."""
        for start in starts:
            output = self.python(
                SMOKE,
                start,
                TF_CPP_MIN_LOG_LEVEL="3",
                TF_MALLEABLE_MAX_THREADS="4",
                TF_NUM_INTRAOP_THREADS=start,
                TF_NUM_INTEROP_THREADS=start,
            )
            assert output.splitlines()[-1] == f"smoke ok with {version}"


@pytest.fixture
def environment() -> Iterator[Environment]:
    # Not in pytest's own folders, which stay: with a TensorFlow it has a gigabyte.
    with tempfile.TemporaryDirectory() as name:
        yield Environment(Path(name))


def test_installed_before_tensorflow(environment, wheel):
    environment.install(wheel)
    assert environment.python("-c", IMPORT) == "overlay []\n"
    environment.install(f"tensorflow-cpu=={TENSORFLOWS[0]}")
    environment.smoke(TENSORFLOWS[0], "1", "2", "4")


def test_installed_after_tensorflow_which_is_then_upgraded(environment, wheel, tmp_path):
    _, first, *later = TENSORFLOWS
    environment.install(f"tensorflow-cpu=={first}")
    environment.install(wheel)
    environment.smoke(first, "1", "2", "4")
    for version in later:
        environment.install(f"tensorflow-cpu=={version}")
        environment.smoke(version, "2")

    (tmp_path / "tensorflow").mkdir()
    (tmp_path / "tensorflow" / "__init__.py").touch()
    (tmp_path / "tensorflow-2.99.0.dist-info").mkdir()
    assert environment.python("-c", IMPORT, PYTHONPATH=str(tmp_path)) == (
        "TensorFlow 2.99.0 is installed, but this tf_malleable supports"
        f" {', '.join(MINORS[:-1])} and {MINORS[-1]}; pip install 'tensorflow=={MINORS[-1]}.*', or,"
        " for a newer one, build the newest version, in a clone of the repository: pip install"
        " --force-reinstall --no-deps .\n"
    )


def test_nothing_is_added_to_the_wheel(wheel):
    assert re.search(r"-manylinux_2_\d+_\w+\.whl$", wheel.name)
    with zipfile.ZipFile(wheel) as archive:
        libraries = {name for name in archive.namelist() if ".so" in name}
        init = archive.getinfo("tf_malleable/runtime/tfm-init")
        assert init.external_attr >> 16 & 0o111
        (metadata,) = (name for name in archive.namelist() if name.endswith("/METADATA"))
        requirements = re.findall(r"^Requires-Dist: (.*)", archive.read(metadata).decode(), re.M)
    folder = "tf_malleable/runtime"
    native = {name for name in libraries if name.startswith(f"{folder}/_native.")}
    assert len(native) == 1
    overlays = {f"{folder}/libtf_malleable_overlay-{minor}.so" for minor in MINORS}
    preloaded = {f"{folder}/libtf_malleable_{name}.so" for name in ("openmp", "tier")}
    assert libraries == native | overlays | preloaded
    assert requirements
    assert not [line for line in requirements if "tensorflow" in line]


def run_tests(path: str, *packages: Path) -> str:
    """Run tests with unpacked packages, in front of those that are installed."""
    result = subprocess.run(
        [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-v", path],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(map(str, packages))},
        capture_output=True,
        text=True,
        check=False,
    )
    assert result.returncode == 0, result.stdout
    return result.stdout


def test_the_overlays_export_what_they_should(wheel, tmp_path):
    zipfile.ZipFile(wheel).extractall(tmp_path)
    output = run_tests("tests/runtime/test_symbols.py", tmp_path)
    for minor in MINORS:
        for test in ("exports_are_those_listed_and_the_abi", "nothing_of_tensorflow_is_needed"):
            assert f"test_{test}[{minor}] PASSED" in output


def test_the_headers_declare_what_the_overlays_define(wheel):
    output = run_tests("tests/packaging/test_declarations.py")
    for version in TENSORFLOWS:
        assert f"same_result[{version}]" in output
    assert f"same_result[{TENSORFLOWS[-1]}] PASSED" in output
