# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""OpenMP teams of a C program of `tfm run`: no Python, no TensorFlow, no agent.

With GCC's runtime, LLVM's and Intel's, as far as they are here.
"""

from __future__ import annotations

import os
import subprocess
from importlib import metadata
from pathlib import Path

import pytest

from tests.support.controllers import TFM, wait_for
from tests.support.openmp import CLANG, CPUS, HOOK, NEEDED, Teams, compiled, needs_libomp

pytestmark = NEEDED


def _with_libgomp(folder: Path) -> Path:
    """Return the program, as most are."""
    return compiled(folder)


def _with_libomp(folder: Path) -> Path:
    """Return it as compiled by Clang."""
    needs_libomp()
    return compiled(folder, compiler=CLANG)


def _with_libiomp5(folder: Path) -> Path:
    """Return it as compiled by Clang, with the runtime of the package intel-openmp."""
    try:
        files = metadata.files("intel-openmp") or []
    except metadata.PackageNotFoundError:
        pytest.skip("needs the package intel-openmp")
    if CLANG is None:
        pytest.skip("needs clang")
    (library,) = (file.locate() for file in files if file.name == "libiomp5.so")
    place = Path(library).resolve().parent
    options = ("-fopenmp=libiomp5", f"-L{place}", f"-Wl,-rpath,{place}")
    return compiled(folder, *options, compiler=CLANG)


RUNTIMES = {"libgomp": _with_libgomp, "libomp": _with_libomp, "libiomp5": _with_libiomp5}


@pytest.fixture(scope="module", params=RUNTIMES)
def runtime(request):
    """Name of the program's OpenMP runtime."""
    return request.param


@pytest.fixture(scope="module")
def program(runtime, tmp_path_factory):
    """The program with that runtime."""
    return RUNTIMES[runtime](tmp_path_factory.mktemp("openmp"))


@pytest.fixture(autouse=True)
def _alone(tmp_path, monkeypatch):
    """Programs run without a controller."""
    monkeypatch.setenv("TF_MALLEABLE_SOCKET", str(tmp_path / "none.sock"))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))


@pytest.fixture
def teams(program):
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
    assert teams.answers(0) == 3 * [len(CPUS)]
    assert teams.answer("ask") == len(CPUS)


@pytest.mark.parametrize("number", [1, 2, 5])
def test_an_explicit_number_is_never_cut(teams, number):
    teams.confine(1)
    assert teams.answers(number, 2) == [number, number]


def test_what_the_program_sets_is_an_upper_bound(teams):
    assert teams.answer(0) == len(CPUS)
    teams.answer("set 1")
    assert teams.answers(0) == [1, 1, 1]


def test_so_is_what_a_program_in_fortran_sets(teams):
    assert teams.answer("fortran procs") == teams.answer("procs") == len(CPUS)
    teams.answer("fortran set 1")
    assert teams.answers(0) == [1, 1, 1]


def test_a_number_that_a_program_in_fortran_has_asked_for_is_kept(teams):
    assert teams.answer("fortran ask") == len(CPUS)
    teams.confine(1)
    assert teams.answers(0) == 3 * [len(CPUS)]


@pytest.mark.parametrize("count", [0, -1, 5, 100_000])
def test_a_limit_without_meaning_stands_for_none_and_one_beyond_the_capacity_for_that(
    program, count
):
    with Teams(program, TF_MALLEABLE_MAX_THREADS="2") as teams:
        assert teams.answer(0) == 2
        teams.answer("limit 1")
        assert teams.answer(0) == 1
        teams.answer(f"limit {count}")
        assert teams.answer(0) == 2


def test_regions_with_many_shared_variables_follow(teams):
    assert teams.answer("many") == len(CPUS)
    teams.confine(1)
    wait_for(lambda: teams.answer("many") == 1)


def test_regions_of_one_thread_leave_the_others_as_they_are(teams):
    assert [teams.answer(line) for line in (0, 1, 0, 1)] == [len(CPUS), 1, len(CPUS), 1]
    teams.confine(1)
    assert teams.answer(1) == 1
    wait_for(lambda: teams.answer(0) == 1)
    teams.confine(len(CPUS))
    assert teams.answer(1) == 1
    wait_for(lambda: teams.answer(0) == len(CPUS))


def test_threads_of_tfm_run_limit_the_teams(program):
    with Teams(program, options=("--threads", "1")) as teams:
        assert [teams.answer(0), teams.answer("procs"), teams.answer("nest")] == [1, 1, 1]


def test_a_region_in_a_region_is_as_without_the_hook(program):
    with Teams(program) as teams:
        hooked = teams.answer("nest")
    with Teams(program, TF_MALLEABLE_OPENMP="0") as teams:
        assert hooked == teams.answer("nest")


def test_a_forked_child_follows_too(teams):
    assert teams.answer("fork 0") == len(CPUS)
    teams.confine(1)
    wait_for(lambda: teams.answer("fork 0") == 1)
    assert teams.answer("fork 3") == 3


def test_a_child_forked_after_a_team_does_not_wait_for_its_threads(teams, runtime):
    """Without the hook it waits for ever where the runtime is libgomp."""
    assert teams.answer(0) == len(CPUS)
    assert teams.answers("fork 0") == 3 * [1 if runtime == "libgomp" else len(CPUS)]
    assert teams.answer("fork fork 0") == teams.answer("fork 0")
    assert teams.answer(0) == len(CPUS)


@pytest.mark.parametrize(
    ("said", "expected"),
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
def test_variables_of_the_user_hold(program, said, expected):
    if expected is None:  # `tfm run` refuses the number.
        command = [TFM, "run", "--", str(program)]
        done = subprocess.run(
            command, env={**os.environ, **said}, capture_output=True, text=True, check=False
        )
        assert done.returncode == 2
        assert done.stderr.count("must be an integer from 1, not '0'") == 1
        return
    with Teams(program, **said) as teams:
        assert teams.answers(0) == 3 * [expected]


@pytest.mark.parametrize("variable", ["GOMP_CPU_AFFINITY", "OMP_PLACES"])
def test_places_that_the_process_does_not_have_are_as_without_the_hook(program, variable):
    place = f"{{{CPUS[1]}}}" if variable == "OMP_PLACES" else str(CPUS[1])
    found = []
    for hook in ("0", "1"):
        said = {variable: place, "OMP_PROC_BIND": "true", "TF_MALLEABLE_OPENMP": hook}
        with Teams(program, cpus=1, **said) as teams:
            found.append([teams.answer(line) for line in (0, 2, "ask", "nest", 0)])
    assert found[0] == found[1]


@pytest.mark.parametrize(
    ("said", "is_placed"), [("granularity=core,compact", True), ("none", False)]
)
def test_places_of_llvm_hold_for_its_runtimes(program, runtime, said, is_placed):
    with Teams(program, KMP_AFFINITY=said) as teams:
        assert teams.answer(0) == len(CPUS)
        teams.confine(1)
        is_kept = is_placed and runtime != "libgomp"
        wait_for(lambda: teams.answer(0) == (len(CPUS) if is_kept else 1))


def test_with_0_the_hook_is_not_loaded(program):
    with Teams(program, TF_MALLEABLE_OPENMP="0") as teams:
        teams.confine(1)
        assert teams.answer(0) in (1, len(CPUS))  # As libgomp has counted at its start.
        assert HOOK.name not in Path(f"/proc/{teams.process.pid}/maps").read_text()


def test_another_value_is_refused(program):
    done = subprocess.run(
        [TFM, "run", "--", str(program)],
        env={**os.environ, "TF_MALLEABLE_OPENMP": "no"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 2
    assert "TF_MALLEABLE_OPENMP must be 0 or 1, not 'no'" in done.stderr
