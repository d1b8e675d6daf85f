# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Another Debian is installed completely or anew, or else what it is for is said to be left out.

Sid for its Bazel 7, and Debian 11 for wheels that run on old systems.
"""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from tests.support.deadline import DEADLINE

TOOLS = Path(__file__).parents[2] / "tools"
# They install a file at a time, and run nothing in what was installed.
PROGRAMS = {
    "id": "echo ${FAKE_ID:-0}",
    "apt-get": "exit ${APT_FAILS:-0}",
    "dpkg-query": "echo ${BAZEL:-7.7.1+ds-8}",
    "mmdebstrap": """
for last; do case $last in build/*) root=$last ;; esac; done
echo "$@"; mkdir -p "$root"; touch "$root/$FILE"; exit ${FAILS:-0}
""",
    "unshare": """
[ -z "${UNSHARE_FAILS:-}" ] || exit 1
while case $1 in --*) ;; *) false ;; esac; do shift; done
case $1 in */mount_root.sh) echo "ran in $2${CXX:+ with $CXX}" ;; *) exec "$@" ;; esac
""",
}


@pytest.fixture
def run(tmp_path):
    """Return a function that runs a tool among these programs."""
    programs = tmp_path / "bin"
    programs.mkdir()
    for name, script in PROGRAMS.items():
        (programs / name).write_text(f"#!/bin/sh\n{script}\n")
        (programs / name).chmod(0o755)

    def run(*command: str, **environment: str) -> tuple[int, str]:
        done = subprocess.run(
            [str(TOOLS / (command or ("bazel7.sh",))[0]), *command[1:]],
            cwd=tmp_path,
            env={**os.environ, "PATH": f"{programs}:/usr/bin:/bin", "FILE": "new", **environment},
            capture_output=True,
            text=True,
            check=False,
            timeout=DEADLINE,
        )
        return done.returncode, done.stdout

    return run


@pytest.mark.parametrize(
    ("environment", "reason"),
    [
        ({"FAKE_ID": "1000"}, "only root can install Debian sid in a folder"),
        ({"UNSHARE_FAILS": "1"}, "this system allows no namespaces"),
    ],
    ids=["user", "namespaces"],
)
def test_where_it_cannot_be_it_is_skipped(run, tmp_path, environment, reason):
    assert run(**environment) == (0, f"Nothing is tried with Bazel 7, as {reason}.\n")
    assert not (tmp_path / "build").exists()


def test_without_what_installs_it_it_is_skipped(run, tmp_path):
    (tmp_path / "bin/mmdebstrap").unlink()
    for program in ("cat", "dirname", "mkdir", "sh", "true"):
        (tmp_path / "bin" / program).symlink_to(f"/usr/bin/{program}")
    code, output = run(APT_FAILS="100", PATH=str(tmp_path / "bin"))
    assert (code, output.splitlines()[-1]) == (
        0,
        "Nothing is tried with Bazel 7, as mmdebstrap cannot be installed.",
    )


def test_what_was_not_completed_is_made_anew_and_what_was_is_kept(run, tmp_path):
    root = tmp_path / "build/bazel7/root"
    code, output = run(FILE="half", FAILS="9")
    assert (code, [path.name for path in root.iterdir()]) == (0, ["half"])
    assert output.endswith(
        "Nothing is tried with Bazel 7, as Debian sid cannot be installed today.\n"
    )
    code, output = run(FILE="eight", BAZEL="8.4.2+ds-1")
    assert (code, [path.name for path in root.iterdir()]) == (0, ["eight"])
    assert output.endswith(
        "Nothing is tried with Bazel 7, as Debian sid has Bazel 8.4.2+ds-1 today.\n"
    )
    assert run("bazel7.sh", "instal") == (2, "")
    assert run("bazel7.sh", "install", FILE="whole") == (
        0,
        "Installing Debian sid with its Bazel 7 in build/bazel7 …\n",
    )
    assert [path.name for path in root.iterdir()] == ["whole"]
    assert run(FILE="other") == (0, "ran in build/bazel7/root\n")
    assert [path.name for path in root.iterdir()] == ["whole"]


def test_wheels_are_compiled_in_the_old_debian(run, tmp_path):
    root = "build/bullseye/root"
    assert run("dist.sh", ".venv/bin/python", "dist") == (
        0,
        "Installing Debian 11 with its compiler in build/bullseye …\n"
        "Building the sdist and the wheel …\n",
    )
    assert f" bullseye {root}" in (tmp_path / "build/log/bullseye.log").read_text()
    said = (tmp_path / "build/log/dist.log").read_text()
    assert said.startswith(f"ran in {root} with ")
    assert said.endswith(f"/in_chroot.sh {tmp_path}/{root} g++\n")


def test_without_it_wheels_are_compiled_here(run, tmp_path):
    python = tmp_path / ".venv/bin/python"
    python.parent.mkdir(parents=True)
    python.write_text('#!/bin/sh\necho "$@${CXX:+ with $CXX}"\n')
    python.chmod(0o755)
    assert run("dist.sh", ".venv/bin/python", "dist", FAKE_ID="1000") == (
        0,
        "The wheel will need a C library as new as this system's, as only root can install Debian"
        " bullseye in a folder.\nBuilding the sdist and the wheel …\n",
    )
    assert (tmp_path / "build/log/dist.log").read_text() == "tools/make_dist.py --out dist\n"
