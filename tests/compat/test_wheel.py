# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""What `make dist` built: the wheel with each TensorFlow, installed in any order, and its papers.

Each environment is new, and has no compiler on its PATH. TFM_TEST_DIST is the folder, if not dist/.
"""

from __future__ import annotations

import hashlib
import json
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
from cyclonedx.schema import SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator
from releases import RELEASES

ROOT = Path(__file__).parents[2]
SMOKE = Path(__file__).parent / "smoke.py"
DIST = Path(os.environ.get("TFM_TEST_DIST", ROOT / "dist"))
MINORS = [release.minor for release in RELEASES]
PYTHON = f"Programming Language :: Python :: 3.{sys.version_info.minor}\n"


def said_of(version: str, file: str) -> str:
    """Return a file of a TensorFlow's metadata, which make_dist has fetched."""
    folder = ROOT / "build/tensorflow" / version / f"tensorflow_cpu-{version}.dist-info"
    return (folder / file).read_text()


# Those that run in this Python.
TENSORFLOWS = [
    release.version for release in RELEASES if PYTHON in said_of(release.version, "METADATA")
]
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
    found = list(DIST.glob(f"tf_malleable-*-{tag}-{tag}-*.whl"))
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


def glibc(tag: str) -> tuple[int, int]:
    """Return the oldest C library that a wheel runs with, of its name or its metadata's tag."""
    # As PEP 600 says of the tag before it.
    found = re.search(r"manylinux_(\d+)_(\d+)_", tag.replace("manylinux2014", "manylinux_2_17"))
    assert found is not None, tag
    return int(found[1]), int(found[2])


@pytest.fixture
def old_debian():
    """The root folder of the system that the wheel was compiled in."""
    folder = ROOT / "build/bullseye"
    if not (folder / "made").exists():
        pytest.skip("it was compiled for this system; see tools/dist.sh")
    return folder / "root"


def test_its_programs_and_libraries_find_what_they_need_there(wheel, old_debian):
    with (
        tempfile.TemporaryDirectory(dir=old_debian / "tmp") as name,
        zipfile.ZipFile(wheel) as archive,
    ):
        files = [file for file in archive.namelist() if re.search(r"\.so$|/tfm-init$", file)]
        archive.extractall(name, files)
        paths = [f"/{Path(name, file).relative_to(old_debian)}" for file in files]
        command = ["chroot", old_debian, "ldd", *paths]
        found = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60)
    assert len(files) == len(MINORS) + 4
    assert all(f"{path}:" in found.stdout for path in paths)
    assert "not found" not in found.stdout + found.stderr


def test_it_runs_where_the_newest_tensorflow_does(wheel, old_debian):
    assert glibc(wheel.name) <= glibc(said_of(RELEASES[-1].version, "WHEEL"))


def test_the_checksums_are_of_all_that_is_published(wheel):
    lines = [line.split("  ") for line in (DIST / "SHA256SUMS").read_text().splitlines()]
    found = {path.name: path for path in DIST.iterdir() if path.name != "SHA256SUMS"}
    assert [name for _, name in lines] == sorted(found)
    assert {wheel.name, f"{wheel.stem}.cdx.json"} < found.keys()
    for digest, name in lines:
        assert digest == hashlib.sha256(found[name].read_bytes()).hexdigest()


@pytest.fixture
def bill(wheel):
    return json.loads(wheel.with_suffix(".cdx.json").read_text())


def test_the_bill_of_materials_is_valid(bill):
    assert JsonStrictValidator(SchemaVersion.V1_6).validate_str(json.dumps(bill)) is None


def test_the_bill_names_all_files_of_others(wheel, bill):
    """Ours say so in their first lines."""
    listed = {
        part["name"]: part["hashes"][0]["content"]
        for each in bill["components"]
        for part in (each, *each.get("components", []))
        if part["type"] == "file"
    }
    with zipfile.ZipFile(wheel) as archive:
        for name, digest in listed.items():
            assert hashlib.sha256(archive.read(name)).hexdigest() == digest, name
        sources = {
            name: archive.read(name)
            for name in archive.namelist()
            if re.search(r"\.(py|js|mjs|css|LICENSE)$", name)
        }
    others = {
        name for name, text in sources.items() if text and b"The tf_malleable Authors" not in text
    }
    vendored = {name for name in listed if not name.endswith(".so")}
    assert others == vendored


def test_the_bill_names_what_is_compiled_in(wheel, bill):
    """Names of types, with their namespaces, stand in a library even if it is stripped."""
    namespaces = {
        rb"N5Eigen": "eigen",
        rb"N3tsl|N10tensorflow": "tensorflow-cpu",
        rb"4absl\d+lts_(\d{8})": "abseil-cpp",
        rb"N8pybind11": "pybind11",
        rb"N6google8protobuf": "protobuf",
        rb"N9ml_dtypes": "ml_dtypes",
        rb"N6slinky": "slinky",
    }
    needs = {each["ref"]: each.get("dependsOn", []) for each in bill["dependencies"]}
    parts = {each["bom-ref"]: each for each in bill["components"]}
    found = set()
    with zipfile.ZipFile(wheel) as archive:
        for name in archive.namelist():
            if not re.search(r"\.so|/tfm-init$", name):
                continue
            said = {parts[ref]["name"]: parts[ref]["version"] for ref in needs.get(name, [])}
            for namespace, part in namespaces.items():
                for match in re.finditer(namespace, archive.read(name)):
                    found.add(part)
                    version = match[1].decode() if match.groups() else ""
                    assert said[part].startswith(version), (name, part)
            minor = re.search(r"overlay-(.*)\.so$", name)
            if minor is not None:
                assert said["tensorflow-cpu"].startswith(f"{minor[1]}.")
    assert found == {"abseil-cpp", "eigen", "pybind11", "tensorflow-cpu"}


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
