# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Debian sid, for its Bazel 7, is installed completely or anew, or else said to be left out."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from tests.support.deadline import DEADLINE

TOOL = Path(__file__).parents[2] / "tools" / "bazel7.sh"
# They install a file at a time, and run nothing in what was installed.
PROGRAMS = {
    "id": "echo ${FAKE_ID:-0}",
    "apt-get": "exit ${APT_FAILS:-0}",
    "dpkg-query": "echo ${BAZEL:-7.7.1+ds-8}",
    "mmdebstrap": 'mkdir -p build/bazel7/root; touch "build/bazel7/root/$FILE"; exit ${FAILS:-0}',
    "unshare": """
[ -z "${UNSHARE_FAILS:-}" ] || exit 1
while case $1 in --*) ;; *) false ;; esac; do shift; done
case $1 in */in_chroot.sh) echo "ran in $2" ;; *) exec "$@" ;; esac
""",
}


@pytest.fixture
def run(tmp_path):
    """Return a function that runs the tool among these programs."""
    programs = tmp_path / "bin"
    programs.mkdir()
    for name, script in PROGRAMS.items():
        (programs / name).write_text(f"#!/bin/sh\n{script}\n")
        (programs / name).chmod(0o755)

    def run(**environment: str) -> tuple[int, str]:
        done = subprocess.run(
            [str(TOOL)],
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
    assert run(FILE="whole") == (
        0,
        "Installing Debian sid with its Bazel 7 in build/bazel7 …\nran in build/bazel7/root\n",
    )
    assert [path.name for path in root.iterdir()] == ["whole"]
    assert run(FILE="other") == (0, "ran in build/bazel7/root\n")
    assert [path.name for path in root.iterdir()] == ["whole"]
