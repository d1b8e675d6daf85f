# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Libraries whose OpenMP teams follow the limit, in programs that do not know of it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from tests.support import controllers
from tests.support.commands import started, tfm
from tests.support.controllers import TFM
from tests.support.openmp import HOOK
from tests.support.programs import ENDS, job
from tf_malleable.controller.processes.thread_libraries import InspectedProcess, thread_libraries

PROGRAM = str(Path(__file__).parent / "cases_openmp.py")
NAMES = {
    "numpy": "OpenBLAS",
    "torch": "PyTorch",
    "sklearn": "scikit-learn",
    "lightgbm": "LightGBM",
    "xgboost": "XGBoost",
    "numba": "numba",
}
LIBRARIES = tuple(NAMES)
CAPACITIES = (3, 16)
# OpenBLAS's threads wait for each other by yielding: with 16 on a few CPUs, a round takes seconds.
CASES = [(library, capacity) for library in LIBRARIES for capacity in CAPACITIES]
CASES.remove(("numpy", 16))
CHANGES = 300
MILLISECONDS = 20
TIMEOUT = 300


@pytest.fixture(autouse=True)
def _alone(tmp_path, monkeypatch):
    """A place for a controller of the test's own; without that, programs run alone."""
    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", str(tmp_path / "compiled"))
    monkeypatch.setenv("TF_MALLEABLE_SOCKET", str(tmp_path / "run" / "controller.sock"))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    for name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS"):
        monkeypatch.delenv(name, raising=False)


def results(*arguments: object, capacity: int) -> dict[str, Any]:
    """Return what the program prints."""
    done = subprocess.run(
        [TFM, "run", "--", sys.executable, PROGRAM, *map(str, arguments)],
        env={**os.environ, "TF_MALLEABLE_MAX_THREADS": str(capacity)},
        capture_output=True,
        text=True,
        timeout=TIMEOUT,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found


@pytest.mark.parametrize(("library", "capacity"), CASES)
def test_results_are_those_of_stock_while_limits_change(library, capacity):
    if find_spec(library) is None:
        pytest.skip(f"there is no {library} for this Python")
    found = results(library, capacity, CHANGES, MILLISECONDS, capacity=capacity)
    assert found["wrong"] == []
    assert found["rounds"] > 1
    assert found["changes"] >= CHANGES


@pytest.mark.parametrize("library", LIBRARIES)
def test_what_is_seen_from_outside_is_what_the_hook_says(library):
    if find_spec(library) is None:
        pytest.skip(f"there is no {library} for this Python")
    found = results("classes", library, capacity=3)
    hook: dict[str, str] = found["hook"]
    assert hook
    python = os.path.realpath(sys.executable)
    for path, follows in hook.items():
        maps = "".join(f"{each}\n" for each in (HOOK, python, path))
        alone = thread_libraries(InspectedProcess(maps.encode()), 3)
        assert {each.follows for each in alone} <= {follows}, path
    seen = {each["name"]: each["follows"] for each in found["seen"]}
    assert NAMES[library] in seen
    assert {*hook.values()} <= {*seen.values()}
    assert {each["capacity"] for each in found["seen"]} <= {3, None}


@pytest.mark.parametrize(
    ("library", "counted"),
    [
        ("sklearn", {"kmeans", "boosting"}),
        ("lightgbm", {"by row", "by column"}),
        ("numba", {"sum", "elements"}),
        ("torch", set()),
        ("xgboost", set()),
    ],
)
def test_regions_that_count_are_as_many_with_any_number_of_threads(library, counted):
    if find_spec(library) is None:
        pytest.skip(f"there is no {library} for this Python")
    found = results("regions", library, capacity=4)
    assert {name for name, (one, four) in found.items() if one or four} == counted
    for one, four in (found[name] for name in counted):
        assert four == pytest.approx(one, rel=0.02)


def test_forked_loaders_and_children_compute_as_well():
    found = results("load", 4, capacity=4)
    assert found["sums"] == pytest.approx([found["expected"]] * 5, rel=1e-6)
    assert found["child"] == 0


@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="needs two CPUs")
def test_torch_follows_a_controllers_grants_and_grows_beyond_its_start(tmp_path):
    with (
        controllers.controller(tmp_path, "--policy", "fcfs-strict") as controller,
        started(
            "run", "--preferred", "1", "--max", "2", "--", sys.executable, PROGRAM, "follow"
        ) as process,
    ):
        assert process.stdout.readline() == "1\n", process.stderr.read()
        for cores in (2, 1, 2):
            assert tfm("set", job(controller)["id"], str(cores)).returncode == 0
            assert process.stdout.readline() == f"{cores}\n"
        assert job(controller)["confined"] is None
        process.kill()
        process.wait(ENDS)


# Prints the size of the next team after each step; the words of the environment are done first.
LIMITS = """
import ctypes, json, os
import joblib
joblib.cpu_count = lambda only_physical_cores=False: 4  # Else never more than this machine has.
import sklearn.utils._openmp_helpers as helpers
from threadpoolctl import threadpool_limits

hook, told = ctypes.CDLL(None), []

def team():
    hook.getpid()  # Gives up the GIL: another operation.
    told.append(helpers._openmp_effective_n_threads())

def limit(threads):
    hook.tfm_openmp_set_limit(threads)

exec(os.environ["STEPS"])
print(json.dumps(told))
"""


@pytest.mark.parametrize(
    ("steps", "expected"),
    [
        ("threadpool_limits(1); team(); limit(2); team(); limit(4); team()", [1, 1, 1]),
        (
            "limit(2); team()\n"
            "with threadpool_limits(2):\n team(); limit(4); team()\n"
            "team(); limit(3); team(); limit(4); team()",
            [2, 2, 2, 4, 3, 4],
        ),
        (
            "limit(1); team()\n"
            "with threadpool_limits(3):\n team(); limit(4); team()\n"
            " with threadpool_limits(1): team()\n"
            " team()\n"
            "team()",
            [1, 1, 3, 1, 3, 4],
        ),
    ],
)
def test_what_threadpoolctl_sets_is_an_upper_bound_until_it_restores_it(steps, expected):
    done = subprocess.run(
        [TFM, "run", "--", sys.executable, "-c", LIMITS],
        env={**os.environ, "TF_MALLEABLE_MAX_THREADS": "4", "STEPS": steps},
        capture_output=True,
        text=True,
        timeout=TIMEOUT,
        check=True,
    )
    assert json.loads(done.stdout) == expected


def test_tfm_tells_how_libraries_follow_and_torch_its_upper_bound():
    """What torch.compile() has compiled is compiled anew if torch tells another number."""
    script = """
import json, torch
import tf_malleable as tfm
told = []
for limit in (2, 1):
    tfm.set_threads(limit)
    torch.ones(100_000).sum()
    told.append(torch.get_num_threads())
print(json.dumps([told, [[each.path.rsplit("/", 1)[1], each.follows, each.limit]
                         for each in tfm.openmp_libraries()]]))
"""
    done = subprocess.run(
        [TFM, "run", "--", sys.executable, "-c", script],
        env={**os.environ, "TF_MALLEABLE_MAX_THREADS": "1024"},
        capture_output=True,
        text=True,
        timeout=TIMEOUT,
        check=True,
    )
    told, libraries = json.loads(done.stdout)
    assert ["libtorch_cpu.so", "at op boundaries", 1] in libraries
    assert told == [1024, 1024]
