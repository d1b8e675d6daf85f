# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Programs into which the OpenMP hook is loaded beside other libraries, or cannot be."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.controllers import TFM, wait_for
from tests.support.openmp import COMPILER, CPUS, HOOK, NEEDED, SOURCE, Teams, compiled

pytestmark = NEEDED
# What people preload, and our own.
PRELOADS = {
    "jemalloc": "libjemalloc.so.2",
    "tcmalloc": "libtcmalloc_minimal.so.4",
    "the tier": "libtf_malleable_tier.so",
    "address sanitizer": "libasan.so",
}

# Its C library has no dladdr1() and no dlvsym(), of which the hook makes use.
MUSL = """
#include <pthread.h>
#include <stdio.h>

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t cond = PTHREAD_COND_INITIALIZER;
static int number;

static void* compute(void* nothing) {
  pthread_mutex_lock(&mutex);
  number = 42;
  pthread_cond_signal(&cond);
  pthread_mutex_unlock(&mutex);
  return nothing;
}

int main(void) {
  pthread_t thread;
  pthread_create(&thread, NULL, compute, NULL);
  pthread_mutex_lock(&mutex);
  while (number == 0) pthread_cond_wait(&cond, &mutex);
  pthread_mutex_unlock(&mutex);
  printf("%d\\n", number);
  return 0;
}
"""


@pytest.fixture(autouse=True)
def _alone(tmp_path, monkeypatch):
    """Programs run without a controller."""
    monkeypatch.setenv("TF_MALLEABLE_SOCKET", str(tmp_path / "none.sock"))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))


def library(name: str) -> Path | None:
    """Return a library's path, where the compiler finds it or beside the hook."""
    words = [COMPILER, f"-print-file-name={name}"]
    said = subprocess.run(words, capture_output=True, text=True, check=True).stdout.strip()
    paths = (HOOK.with_name(name), Path(said).resolve())
    return next((path for path in paths if path.is_absolute() and path.exists()), None)


def is_hooked(teams: Teams) -> bool:
    """Return whether the program has loaded the hook."""
    return HOOK.name in Path(f"/proc/{teams.process.pid}/maps").read_text()


def stays(teams: Teams, *, hooked: bool = False) -> None:
    """Assert that teams are as without the hook."""
    assert teams.answer(0) == len(CPUS)
    assert is_hooked(teams) == hooked
    teams.confine(1)
    assert teams.answer(0) == len(CPUS)


@pytest.mark.parametrize("name", PRELOADS)
def test_a_program_follows_beside_what_else_is_preloaded(tmp_path, name):
    path = library(PRELOADS[name])
    if path is None:
        assert name != "the tier"
        pytest.skip(f"needs {PRELOADS[name]}")
    said = {"LD_PRELOAD": str(path), "ASAN_OPTIONS": "detect_leaks=0"}
    with Teams(compiled(tmp_path), **said) as teams:
        assert teams.answer(0) == len(CPUS)
        maps = Path(f"/proc/{teams.process.pid}/maps").read_text()
        assert path.name in maps
        assert is_hooked(teams)
        teams.confine(1)
        wait_for(lambda: teams.answer(0) == 1)


def test_what_is_preloaded_already_stays_in_front(tmp_path):
    source = tmp_path / "allocator.c"
    source.write_text("int allocator_of_the_user = 1;\n")
    allocator = tmp_path / "liballocator.so"
    words = [COMPILER, "-x", "c", "-shared", "-fPIC", "-o", str(allocator), str(source)]
    subprocess.run(words, check=True)
    script = "import json, os; print(json.dumps(os.environ['LD_PRELOAD'].split(':')))"
    done = subprocess.run(
        [TFM, "run", "--", TFM, "run", "--", sys.executable, "-c", script],
        env={**os.environ, "LD_PRELOAD": str(allocator)},
        capture_output=True,
        text=True,
        check=True,
    )
    assert json.loads(done.stdout) == [str(allocator), str(HOOK)]


@pytest.mark.parametrize("sanitizer", ["address", "undefined"])
def test_a_program_with_a_sanitizer_runs(tmp_path, sanitizer):
    with Teams(compiled(tmp_path, f"-fsanitize={sanitizer}")) as teams:
        assert teams.answer(2) == 2


def test_a_statically_linked_program_is_left_alone(tmp_path):
    with Teams(compiled(tmp_path, "-static")) as teams:
        stays(teams)


def test_so_are_the_teams_of_one_with_a_libgomp_of_its_own_inside(tmp_path):
    program, linked = tmp_path / "teams", tmp_path / "teams.o"
    words = [COMPILER, "-fopenmp", "-c", "-x", "c", str(SOURCE), "-o", str(linked)]
    subprocess.run(words, check=True)
    words = [COMPILER, str(linked), str(library("libgomp.a")), "-lpthread", "-ldl"]
    subprocess.run([*words, "-o", str(program)], check=True)
    with Teams(program) as teams:
        stays(teams, hooked=True)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a file away")
def test_so_is_one_with_another_users_rights(tmp_path):
    program = compiled(tmp_path)
    shutil.chown(program, "nobody")
    program.chmod(0o4755)
    for folder in (tmp_path, *tmp_path.parents[:2]):
        folder.chmod(0o755)
    with Teams(program) as teams:
        stays(teams)


@pytest.mark.skipif(shutil.which("musl-gcc") is None, reason="needs musl-tools")
def test_a_program_with_musl_runs(tmp_path):
    source = tmp_path / "musl.c"
    source.write_text(MUSL)
    program = tmp_path / "musl"
    subprocess.run(["musl-gcc", "-pthread", str(source), "-o", str(program)], check=True)
    words = [TFM, "run", "--", str(program)]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, "42\n")
    assert "relocating" not in done.stderr
