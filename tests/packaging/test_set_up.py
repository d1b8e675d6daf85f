# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""The set-up: what it prints and demands, and that pre-commit lints as make does."""

from __future__ import annotations

import fcntl
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from scikit_build_core import build

from tests.support.deadline import DEADLINE

ROOT = Path(__file__).parents[2]
TOOLS = ROOT / "tools"
STEP = TOOLS / "step.sh"


def run(*command: str | Path, cwd: Path, **environment: str) -> tuple[int, str, str]:
    done = subprocess.run(
        [str(part) for part in command],
        cwd=cwd,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        check=False,
        timeout=DEADLINE,
    )
    return done.returncode, done.stdout, done.stderr


def test_a_step_prints_what_it_does_and_keeps_the_rest_in_a_log(tmp_path):
    command = ["sh", "-c", "echo out; echo WARNING: noise >&2"]
    assert run(STEP, "apt", "Installing things", *command, cwd=tmp_path) == (
        0,
        "Installing things …\n",
        "",
    )
    assert (tmp_path / "build/log/apt.log").read_text() == "out\nWARNING: noise\n"


def test_a_step_that_fails_shows_its_output_and_its_code(tmp_path):
    command = ["sh", "-c", "echo out; echo no such package >&2; exit 3"]
    assert run(STEP, "apt", "Installing things", *command, cwd=tmp_path) == (
        3,
        "Installing things …\n",
        "out\nno such package\n",
    )


@pytest.fixture
def bare_machine(tmp_path):
    """Return a PATH without a compiler, with an apt-get that prints its arguments."""
    programs = tmp_path / "bin"
    programs.mkdir()
    for program in ("cat", "dirname", "mkdir", "sh"):
        (programs / program).symlink_to(str(shutil.which(program)))
    apt_get = 'shift 2; echo "$@"; exit ${APT_FAILS:-0}'  # After how long it waits for others.
    for name, script in {"id": "echo 0", "apt-get": apt_get}.items():
        (programs / name).write_text(f"#!/bin/sh\n{script}\n")
        (programs / name).chmod(0o755)
    return str(programs)


def test_missing_packages_are_installed_without_noise(tmp_path, bare_machine):
    code, output, errors = run(
        TOOLS / "system_packages.sh", sys.executable, cwd=tmp_path, PATH=bare_machine
    )
    assert (code, errors) == (0, "")
    first, second = output.splitlines()
    assert first == "Updating apt's package lists …"
    assert second.startswith("Installing with apt-get: g++ patch util-linux")
    said = (tmp_path / "build/log/apt-install.log").read_text()
    assert said.startswith("install -q -y --no-install-recommends g++ patch util-linux")


def test_an_apt_get_that_fails_is_heard(tmp_path, bare_machine):
    code, _, errors = run(
        TOOLS / "system_packages.sh",
        sys.executable,
        cwd=tmp_path,
        PATH=bare_machine,
        APT_FAILS="100",
    )
    assert (code, errors) == (100, "update -q\n")


@pytest.mark.skipif(shutil.which("apt-get") is None, reason="has no apt")
def test_it_waits_for_others_that_use_apt(tmp_path):
    """Those of a machine's first start; apt itself waits for one of two locks."""
    lists = tmp_path / "lists"
    (lists / "partial").mkdir(parents=True)
    configuration = f"""\
        Dir::State::lists "{lists}"; Dir::Cache "{tmp_path}/cache";
        Dir::Etc::sourcelist "/dev/null"; Dir::Etc::sourceparts "/dev/null";
    """
    (tmp_path / "apt.conf").write_text(configuration)
    command = [STEP, "apt", "Updating", TOOLS / "apt_get.sh", "update"]
    environment = {**os.environ, "APT_CONFIG": str(tmp_path / "apt.conf")}
    with (lists / "lock").open("w") as lock:
        fcntl.lockf(lock, fcntl.LOCK_EX)
        process = subprocess.Popen(
            command, cwd=tmp_path, env=environment, stdout=subprocess.PIPE, text=True
        )
        lines = [process.stdout.readline() for _ in range(2)]
        assert lines == ["Updating …\n", "Waiting for another program that uses apt …\n"]
    assert process.communicate(timeout=DEADLINE) == ("", None)
    assert process.returncode == 0
    assert "Could not get lock" not in (tmp_path / "build/log/apt.log").read_text()


def test_only_the_cpp_tests_need_googletest(tmp_path, bare_machine):
    command = [TOOLS / "system_packages.sh", sys.executable]
    _, output, _ = run(*command, cwd=tmp_path, PATH=bare_machine)
    assert "libgtest-dev" not in output
    _, output, _ = run(*command, "cc-tests", cwd=tmp_path, PATH=bare_machine)
    assert output.endswith(" libgtest-dev …\n")
    makefile = (ROOT / "Makefile").read_text()
    needing = re.findall(r"^([\w%-]+):.*\btest-packages\b", makefile, re.M)
    others = ["cc-build-%", "fuzz-shim", "bazel-test", "bazel-build"]
    assert needing == ["test-most", "bench-power", *others]
    assert re.search(r"^test-all: all-packages\b", makefile, re.M)


def test_only_the_page_s_tests_need_a_browser(tmp_path, bare_machine):
    command = [TOOLS / "system_packages.sh", sys.executable, "cc-tests"]
    _, output, _ = run(*command, cwd=tmp_path, PATH=bare_machine)
    assert "chromium" not in output
    _, output, _ = run(*command, "browser", cwd=tmp_path, PATH=bare_machine)
    assert output.endswith(" libgtest-dev chromium …\n")


def test_pre_commit_runs_what_make_lint_runs():
    """But for the files, which pre-commit names itself."""
    lint = (ROOT / "Makefile").read_text().partition("define LINT\n")[2].partition("endef")[0]
    hooks = re.findall(r"^ +entry: (.+)$", (ROOT / ".pre-commit-config.yaml").read_text(), re.M)
    of_make = [re.sub(r" (\.|\$\(CLANG_FORMAT_FILES\))$", "", line) for line in lint.splitlines()]
    assert len(hooks) == 5
    assert sorted(hook.removeprefix("env ") for hook in hooks) == sorted(of_make)


def test_wheels_are_built_with_what_the_dist_group_installs(tmp_path, monkeypatch):
    """`make dist` builds without isolation, also where apt has installed no CMake and no Ninja."""
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.chdir(ROOT)
    group = re.search(r"^dist = \[\n(.*?)^\]", Path("pyproject.toml").read_text(), re.M | re.S)
    assert group is not None
    has = {Requirement(text).name for text in re.findall('"(.+)"', group[1])}
    assert {Requirement(text).name for text in build.get_requires_for_build_wheel({})} <= has


def test_cleaning_keeps_measurements():
    recipe = re.search(r"^clean:\n\t(.+)\n", (ROOT / "Makefile").read_text(), re.M)
    assert recipe is not None
    assert recipe[1].startswith("rm -rf ")
    assert "out" not in recipe[1].split()
