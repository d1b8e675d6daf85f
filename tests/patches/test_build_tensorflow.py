# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""tools/build_tensorflow.sh: its steps, and its flags against facts of TensorFlow's own files.

What takes hours or the network is done by stand-ins that note how they are called: Bazel, curl,
and the Python of the new environment.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest
from source_facts import read_facts

from tests.support.trees import ALL_SERIES, ROOT, SERIES, THREAD_POOL, make_tree

SCRIPT = ROOT / "tools" / "build_tensorflow.sh"
PYTHON = f"{sys.version_info.major}.{sys.version_info.minor}"
TAG = f"cp{PYTHON.replace('.', '')}"
WHEEL = f"tensorflow_cpu-2.21.0-{TAG}-{TAG}-linux_x86_64.whl"

NOTE = 'echo "$(basename "$0") $*" >>"$NOTES"\n'
STAND_INS = {
    "bazel": '[ "$1" != --version ] || { echo "bazel ${SAYS:-7.7.1}"; exit; }\n'
    + NOTE
    + '[ -z "${FAILS:-}" ] || exit 1\n'
    + "mkdir -p bazel-bin/tensorflow/tools/pip_package/wheel_house\n"
    + f": >bazel-bin/tensorflow/tools/pip_package/wheel_house/{WHEEL}\n",
    "curl": NOTE + 'while [ "$1" != --output ]; do shift; done\ncp "$ARCHIVE" "$2"\n',
    f"python{PYTHON}": NOTE
    + 'mkdir -p "$3/bin"\nfor name in pip python; do\n'
    + '  printf \'#!/bin/sh\\necho "$(basename "$0") $*" >>"$NOTES"\\n\' >"$3/bin/$name"\n'
    + '  chmod +x "$3/bin/$name"\ndone\n',
    "df": 'echo head; echo "disk 1 1 ${FREE:-99999999} 1% /"\n',
}


class Machine:
    """A machine on which the script finds the stand-ins."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.build = folder / "build"
        self.notes = folder / "notes"
        self.notes.touch()
        self.archive = folder / "v2.21.0.tar.gz"
        programs = folder / "bin"
        programs.mkdir()
        for name, text in STAND_INS.items():
            (programs / name).write_text(f"#!/bin/sh\nset -eu\n{text}")
            (programs / name).chmod(0o755)
        # The tools run in this Python.
        (programs / "python3").symlink_to(sys.executable)
        self._path = f"{programs}:{os.environ['PATH']}"

    def pack(self) -> None:
        """Write an archive of the stand-in for TensorFlow's sources."""
        tree = make_tree(self.folder / "tensorflow-2.21.0")
        with tarfile.open(self.archive, "w:gz") as tar:
            tar.add(tree, tree.name)
        shutil.rmtree(tree)

    def run(self, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [str(SCRIPT), *arguments],
            env={
                **os.environ,
                "PATH": self._path,
                "NOTES": str(self.notes),
                "ARCHIVE": str(self.archive),
                **environment,
            },
            capture_output=True,
            text=True,
            check=False,
            timeout=120,
        )

    def built(self, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
        """Build from the archive, whatever the memory here."""
        options = ("--dir", str(self.build), "--archive", str(self.archive), "--no-checks")
        return self.run("2.21.0", *options, *arguments, **environment)


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path)


def refused(done: subprocess.CompletedProcess[str], *words: str) -> None:
    """Check for one sentence with these words, and exit status 2."""
    assert (done.returncode, len(done.stderr.splitlines())) == (2, 1), done.stderr
    assert done.stderr.startswith("build_tensorflow: ")
    for word in words:
        assert word in done.stderr


def names(file: str) -> str:
    """Return what was recorded of a file that the recipe relies on."""
    return "\n".join(read_facts(SERIES).recipe[Path(file)])


def test_target_and_flags_are_tensorflows(machine):
    done = machine.run("2.21.0", "--dry-run")
    assert (done.returncode, done.stderr) == (0, "")
    [command] = [line.split() for line in done.stdout.splitlines() if " build //" in line]
    target, *flags = command[command.index("build") + 1 :]
    assert target in names("ci/official/wheel.sh")
    assert f'name = "{target.rpartition(":")[2]}"' in names("tensorflow/tools/pip_package/BUILD")
    [config] = [flag.partition("=")[2] for flag in flags if flag.startswith("--config=")]
    assert f"build:{config} " in names(".bazelrc")
    settings = dict(
        flag.removeprefix("--repo_env=").split("=") for flag in flags if "repo_env" in flag
    )
    assert len(flags) == 1 + len(settings)
    for name in settings:
        assert f"--repo_env={name}=" in names(".bazelrc") + names("ci/official/envs/linux_x86")
    assert f"--repo_env=WHEEL_NAME={settings['WHEEL_NAME']}" in names("ci/official/envs/linux_x86")
    kinds = names("third_party/xla/third_party/py/python_wheel.bzl")
    assert f'"{settings["ML_WHEEL_TYPE"]}"' in kinds
    assert re.search(r'= "(\w+)"', names("tensorflow/tools/pip_package/utils/tf_wheel.bzl"))[1] in (
        done.stdout
    )


def test_the_archive_is_the_one_that_bazel_fetches():
    bazel = (ROOT / "third_party/repositories.bzl").read_text()
    archive = read_facts(SERIES).archive
    assert f'"{archive["url"]}"' in bazel
    assert f'"{archive["sha256"]}"' in bazel


def test_a_dry_run_changes_nothing(machine):
    done = machine.run("2.21.0", "--dry-run", "--dir", str(machine.build))
    assert done.returncode == 0
    assert [line for line in done.stdout.splitlines() if line.startswith("[6/6]")]
    assert not machine.build.exists()
    assert machine.notes.read_text() == ""


def test_from_an_empty_folder_to_an_installed_wheel(machine):
    machine.pack()
    done = machine.built("--", "--jobs=1")
    assert (done.returncode, done.stderr) == (0, "")
    steps = re.findall(r"^\[(\d)/6\] ", done.stdout, re.MULTILINE)
    assert steps == list("123456")
    tree = machine.build / "tensorflow-2.21.0"
    assert "tf_malleable::HandedOut" in (tree / THREAD_POOL).read_text()
    bazel, venv, wheel, ours, asked = machine.notes.read_text().splitlines()
    assert bazel.startswith("bazel build //tensorflow/tools/pip_package:wheel --config=")
    assert bazel.endswith(" --jobs=1")
    assert venv == f"python{PYTHON} -m venv {machine.build}/venv"
    assert wheel.startswith("pip install --quiet /")
    assert wheel.endswith(f"/wheel_house/{WHEEL}")
    assert ours == "pip install --quiet . pytest"
    assert "tfm.backend()" in asked
    assert "make conformance TF_PYTHON=" in done.stdout


def test_what_was_interrupted_goes_on(machine):
    machine.pack()
    done = machine.built(FAILS="yes")
    assert done.returncode == 1
    assert "[5/6]" not in done.stdout
    machine.archive.unlink()
    machine.archive.touch()
    assert machine.built().returncode == 0


def test_what_is_fetched_is_compared_with_its_hash(machine):
    machine.pack()
    options = ("--dir", str(machine.build), "--no-checks")
    refused(machine.run("2.21.0", *options), "is not what TensorFlow released", "remove it")
    assert "bazel" not in machine.notes.read_text()


def test_other_sources_are_refused_before_the_build(machine):
    machine.pack()
    with tarfile.open(machine.archive) as tar:
        tar.extractall(machine.folder)
    tree = machine.folder / "tensorflow-2.21.0"
    (tree / THREAD_POOL).write_text("// Of another release.\n")
    with tarfile.open(machine.archive, "w:gz") as tar:
        tar.add(tree, tree.name)
    done = machine.built()
    assert done.returncode != 0
    assert "lacks what the patches expect" in done.stdout
    assert machine.notes.read_text() == ""


def test_too_little_disk_is_said_before_anything_is_fetched(machine):
    done = machine.run("2.21.0", "--dir", str(machine.build), FREE="1000000")
    refused(done, "has 0 GiB free and a build may need 50", "--no-checks")
    assert machine.notes.read_text() == ""


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ((), ("which version?",)),
        (("2.20.0",), ("no patches for TensorFlow 2.20.0", "2.21.0, 2.22.0")),
        (("2.22.0",), ("not released yet", "--archive FILE")),
        (("2.21.0", "2.22.0"), ("one VERSION",)),
        (("2.21.0", "--opt"), ("no option --opt", "--help")),
        (("2.21.0", "--dir"), ("--dir needs a value",)),
        (("2.21.0", "--python", "3.9"), ("3.10 or later",)),
        (("2.21.0", "--archive", "/nowhere.tar"), ("there is no /nowhere.tar",)),
    ],
)
def test_what_cannot_be_built_is_refused(machine, arguments, words):
    refused(machine.run(*arguments), *words)


@pytest.mark.parametrize("says", ["6.5.0", "8.1.0", "no_version"])
def test_a_bazel_that_is_not_tensorflows_is_refused(machine, says):
    refused(machine.run("2.21.0", SAYS=says), f"needs Bazel 7, not bazel {says}", "bazelisk")
    assert not machine.build.exists()


def test_each_series_has_a_bazel(machine):
    assert {series.version: read_facts(series).bazel for series in ALL_SERIES} == {
        "2.21.0": "7",
        "2.22.0": "8",
    }
