# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""OpenMP teams of a C program of `tfm run`: no Python, no TensorFlow, no agent."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import tf_malleable.runtime
from tests.support.controllers import TFM, wait_for
from tests.support.deadline import DEADLINE

HOOK = Path(tf_malleable.runtime.__file__).with_name("libtf_malleable_openmp.so")
SOURCE = Path(__file__).with_name("openmp_teams.c")
CPUS = sorted(os.sched_getaffinity(0))
COMPILER = shutil.which("gcc") or shutil.which("g++")
pytestmark = [
    pytest.mark.skipif(len(CPUS) < 2, reason="needs two CPUs"),
    pytest.mark.skipif(not HOOK.exists(), reason="built without the OpenMP hook"),
]


def compiled(folder: Path, *options: str) -> Path:
    """Return the program, compiled with options."""
    assert COMPILER is not None
    program = folder / "teams"
    words = [COMPILER, "-x", "c", "-fopenmp", *options, "-o", str(program), str(SOURCE)]
    subprocess.run(words, check=True)
    return program


@pytest.fixture(scope="module")
def program(tmp_path_factory):
    """The program, as most are: with a libgomp of its own."""
    return compiled(tmp_path_factory.mktemp("openmp"))


class Teams:
    """A running program that is asked for its teams."""

    def __init__(self, program: Path, *options: str, **variables: str) -> None:
        inherited = {k: v for k, v in os.environ.items() if not k.startswith(("OMP_", "GOMP_"))}
        self.process: Any = subprocess.Popen(
            [TFM, "run", *options, "--", str(program)],
            env={**inherited, **variables},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def __enter__(self) -> Teams:
        return self

    def __exit__(self, *_: object) -> None:
        self.process.communicate(timeout=DEADLINE)
        assert self.process.returncode == 0

    def answer(self, line: str | int) -> int:
        """Return what the program answers to a line."""
        self.process.stdin.write(f"{line}\n")
        self.process.stdin.flush()
        return int(self.process.stdout.readline())

    def confine(self, count: int) -> None:
        """Confine all threads of the program from outside, as a controller does."""
        cpus = CPUS[:count]
        for thread in os.listdir(f"/proc/{self.process.pid}/task"):
            os.sched_setaffinity(int(thread), cpus)


@pytest.fixture
def alone(tmp_path, monkeypatch):
    """Programs run without a controller."""
    monkeypatch.setenv("TF_MALLEABLE_SOCKET", str(tmp_path / "none.sock"))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))


@pytest.fixture
def teams(alone, program):
    """The program, not confined."""
    with Teams(program) as running:
        yield running


def test_teams_follow_the_cpus_that_the_process_may_use(teams):
    assert teams.answer(0) == len(CPUS)
    for count in (1, len(CPUS), 1):
        teams.confine(count)
        # The limit may be half a millisecond old.
        wait_for(lambda n=count: teams.answer(0) == n)


def test_a_number_that_the_program_has_asked_for_is_kept(teams):
    assert teams.answer("ask") == len(CPUS)
    teams.confine(1)
    assert [teams.answer(0) for _ in range(3)] == 3 * [len(CPUS)]
    assert teams.answer("ask") == len(CPUS)


@pytest.mark.parametrize("number", [1, 2, 5])
def test_an_explicit_number_is_never_cut(teams, number):
    teams.confine(1)
    assert [teams.answer(number) for _ in range(2)] == [number, number]


def test_what_the_program_sets_is_an_upper_bound(teams):
    assert teams.answer(0) == len(CPUS)
    teams.answer("set 1")
    assert [teams.answer(0) for _ in range(3)] == [1, 1, 1]


def test_threads_of_tfm_run_limit_the_teams(alone, program):
    with Teams(program, "--threads", "1") as teams:
        assert [teams.answer(0), teams.answer("procs"), teams.answer("nest")] == [1, 1, 1]


def test_a_region_in_a_region_is_as_without_the_hook(alone, program):
    with Teams(program) as teams:
        hooked = teams.answer("nest")
    with Teams(program, TF_MALLEABLE_OPENMP="0") as teams:
        assert hooked == teams.answer("nest")


def test_a_forked_child_follows_too(teams):
    assert teams.answer("fork 0") == len(CPUS)
    teams.confine(1)
    wait_for(lambda: teams.answer("fork 0") == 1)
    assert teams.answer("fork 3") == 3


@pytest.mark.parametrize(
    ("variables", "expected"),
    [
        ({"OMP_NUM_THREADS": "1"}, 1),
        ({"OMP_THREAD_LIMIT": "1"}, 1),
        ({"OMP_DYNAMIC": "true", "OMP_NUM_THREADS": "1"}, 1),
        # The affinity of a thread then says nothing about the process.
        ({"OMP_PROC_BIND": "true"}, len(CPUS)),
        ({"OMP_PLACES": "threads"}, len(CPUS)),
        ({"GOMP_CPU_AFFINITY": f"{CPUS[0]} {CPUS[1]}", "OMP_NUM_THREADS": "2"}, 2),
        ({"TF_MALLEABLE_THREADS": "0"}, None),
        ({"TF_MALLEABLE_MAX_THREADS": "1", "TF_MALLEABLE_THREADS": "9"}, 1),
    ],
)
def test_variables_of_the_user_hold(alone, program, variables, expected):
    if expected is None:  # `tfm run` refuses the number.
        command = [TFM, "run", "--", str(program)]
        done = subprocess.run(
            command, env={**os.environ, **variables}, capture_output=True, text=True, check=False
        )
        assert done.returncode == 2
        assert done.stderr.count("must be an integer from 1, not '0'") == 1
        return
    with Teams(program, **variables) as teams:
        assert [teams.answer(0) for _ in range(3)] == 3 * [expected]


def test_with_0_the_hook_is_not_loaded(alone, program):
    with Teams(program, TF_MALLEABLE_OPENMP="0") as teams:
        teams.confine(1)
        assert teams.answer(0) in (1, len(CPUS))  # As libgomp has counted at its start.
        assert HOOK.name not in Path(f"/proc/{teams.process.pid}/maps").read_text()


def test_another_value_is_refused(alone, program):
    done = subprocess.run(
        [TFM, "run", "--", str(program)],
        env={**os.environ, "TF_MALLEABLE_OPENMP": "no"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 2
    assert "TF_MALLEABLE_OPENMP must be 0 or 1, not 'no'" in done.stderr


def test_what_is_preloaded_already_stays_in_front(alone, tmp_path):
    source = tmp_path / "allocator.c"
    source.write_text("int allocator_of_the_user = 1;\n")
    allocator = tmp_path / "liballocator.so"
    assert COMPILER is not None
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
def test_a_program_with_a_sanitizer_runs(alone, tmp_path, sanitizer):
    with Teams(compiled(tmp_path, f"-fsanitize={sanitizer}")) as teams:
        assert teams.answer(2) == 2


def test_a_statically_linked_program_is_left_alone(alone, tmp_path):
    with Teams(compiled(tmp_path, "-static")) as teams:
        assert teams.answer(0) == len(CPUS)
        teams.confine(1)
        assert teams.answer(0) == len(CPUS)


def test_so_is_one_with_a_libgomp_of_its_own_inside(alone, tmp_path):
    library = subprocess.run(
        [str(COMPILER), "-print-file-name=libgomp.a"], capture_output=True, text=True, check=True
    ).stdout.strip()
    assert COMPILER is not None
    program = tmp_path / "teams"
    words = [COMPILER, "-fopenmp", "-c", "-x", "c", str(SOURCE), "-o", str(tmp_path / "teams.o")]
    subprocess.run(words, check=True)
    words = [COMPILER, str(tmp_path / "teams.o"), library, "-lpthread", "-ldl", "-o", str(program)]
    subprocess.run(words, check=True)
    with Teams(program) as teams:
        assert teams.answer(0) == len(CPUS)
        teams.confine(1)
        assert teams.answer(0) == len(CPUS)
