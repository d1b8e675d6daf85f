# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""OpenBLAS, as NumPy's wheel brings it, and BLIS, in Python programs of `tfm run`."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.controllers import TFM, wait_for
from tests.support.deadline import DEADLINE
from tests.support.openmp import NEEDED, Teams

pytestmark = NEEDED

# Answers each line with the number of threads after a product. threadpoolctl asks OpenBLAS itself.
PROGRAM = """
import contextlib, os, sys
import numpy as np
from threadpoolctl import ThreadpoolController, threadpool_limits

matrix = np.ones((200, 200))
blas = ThreadpoolController().select(user_api="blas").lib_controllers[0]
limiters = []

def threads():
    assert (matrix @ matrix == 200).all()
    return blas.num_threads

for line in sys.stdin:
    word, _, number = line.strip().partition(" ")
    if word == "limit":
        limiters.append(threadpool_limits(int(number), user_api="blas"))
    elif word == "restore":
        limiters.pop().restore_original_limits()
    elif word == "fork":
        child = os.fork()
        if not child:
            os._exit(threads())
        print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
        continue
    print(threads(), flush=True)
"""

# Computes in four threads and in forked children while the limit changes at random, as it is set
# and by the CPUs of the process. Children are forked while no thread computes, as stock OpenBLAS
# may else hang.
STRESS = """
import ctypes, json, os, random, sys, threading, time
import numpy as np

seconds, most, seed = map(int, sys.argv[1:])
end = time.monotonic() + seconds
random.seed(seed)
cpus = sorted(os.sched_getaffinity(0))[:2]
set_limit = ctypes.CDLL(None).tfm_openmp_set_limit
integers = np.random.default_rng(seed).integers(-4, 5, (200, 200)).astype(float)
product = integers @ integers
regular = integers @ integers.T + 200 * np.eye(200)
inverse = np.linalg.inv(regular)
wrong, products, forks, changes = [], 0, 0, 0

def compute():
    # Products of small integers are exact, whatever the order of the sums.
    if not (integers @ integers == product).all():
        wrong.append("product")
    if not np.allclose(np.linalg.inv(regular), inverse):
        wrong.append("inverse")

def compute_until(over):
    global products
    while not over.is_set():
        compute()
        products += 1

def change():
    set_limit(random.choice((0, 0, 1, 2)))
    allowed = random.choice((cpus, cpus[:1], cpus[1:]))
    for thread in os.listdir("/proc/self/task"):
        try:
            os.sched_setaffinity(int(thread), allowed)
        except ProcessLookupError:
            pass
    time.sleep(random.uniform(0.0, 0.002))

while changes < most and time.monotonic() < end:
    over = threading.Event()
    threads = [threading.Thread(target=compute_until, args=[over]) for _ in range(4)]
    for each in threads:
        each.start()
    for _ in range(100):
        change()
        changes += 1
    over.set()
    for each in threads:
        each.join()
    child = os.fork()
    if not child:
        compute()
        os._exit(len(wrong))
    if os.waitpid(child, 0)[1]:
        wrong.append("child")
    forks += 1
print(json.dumps({"changes": changes, "products": products, "forks": forks, "wrong": wrong}))
"""

# Answers each line with the number of threads after a product.
WITH_BLIS = """
import ctypes, sys

blis = ctypes.CDLL(sys.argv[1])
get, set_ = blis.bli_thread_get_num_threads, blis.bli_thread_set_num_threads
get.restype = ctypes.c_int64
set_.argtypes = [ctypes.c_int64]
N, ROWS, PLAIN = 200, 101, 111
ones, product = (ctypes.c_double * N**2)(*[1.0] * N**2), (ctypes.c_double * N**2)()

for line in sys.stdin:
    word, _, number = line.strip().partition(" ")
    if word == "set":
        set_(int(number))
    one, zero = ctypes.c_double(1), ctypes.c_double(0)
    blis.cblas_dgemm(ROWS, PLAIN, PLAIN, N, N, N, one, ones, N, ones, N, zero, product, N)
    assert {*product} == {N}
    print(get(), flush=True)
"""


def numpy(*options: str, cpus: int = 2, **said: str) -> Teams:
    """Return the program, running, which may use so many CPUs at first."""
    return Teams(sys.executable, "-c", PROGRAM, options=options, cpus=cpus, **said)


@pytest.fixture(autouse=True)
def _alone(tmp_path, monkeypatch):
    """Programs run without a controller."""
    monkeypatch.setenv("TF_MALLEABLE_SOCKET", str(tmp_path / "none.sock"))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))


@pytest.mark.parametrize("started_with", [1, 2])
def test_it_follows_the_cpus_that_the_process_may_use(started_with):
    with numpy(cpus=started_with) as program:
        assert program.answer() == started_with
        for count in (1, 2, 1, 2):
            program.confine(count)
            wait_for(lambda n=count: program.answer() == n)


def test_what_the_program_sets_is_an_upper_bound_until_it_restores_it():
    with numpy() as program:
        wait_for(lambda: program.answer() == 2)
        assert program.answer("limit 1") == 1
        program.confine(1)
        program.confine(2)
        assert program.answers("", 5) == [1] * 5
        assert program.answer("restore") == 2
        program.confine(1)
        wait_for(lambda: program.answer() == 1)
        program.confine(2)
        wait_for(lambda: program.answer() == 2)


def test_a_limit_that_equals_the_number_of_the_moment_is_one_too():
    with numpy() as program:
        program.confine(1)
        wait_for(lambda: program.answer() == 1)
        assert program.answer("limit 1") == 1
        program.confine(2)
        assert program.answers("", 20) == [1] * 20
        program.answer("limit 2")
        wait_for(lambda: program.answer() == 2)
        assert program.answer("restore") == 1
        assert program.answers("", 20) == [1] * 20
        program.answer("restore")
        wait_for(lambda: program.answer() == 2)


def test_what_was_told_while_fewer_were_allowed_is_no_limit_when_it_is_restored():
    with numpy() as program:
        program.confine(1)
        wait_for(lambda: program.answer() == 1)
        program.answer("limit 2")
        program.confine(2)
        wait_for(lambda: program.answer() == 2)
        program.answer("restore")
        wait_for(lambda: program.answer() == 2)


@pytest.mark.parametrize("variable", ["OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS"])
def test_a_number_of_the_environment_is_an_upper_bound(variable):
    with numpy(**{variable: "1"}) as program:
        assert program.answers("", 20) == [1] * 20


def test_threads_of_tfm_run_limit_it():
    with numpy("--threads", "1") as program:
        wait_for(lambda: program.answer() == 1)


def test_without_the_hook_it_stays_as_it_was():
    with numpy(TF_MALLEABLE_OPENMP="0") as program:
        assert program.answer() == 2
        program.confine(1)
        assert program.answers("", 20) == [2] * 20


def test_a_forked_child_follows_too():
    with numpy() as program:
        wait_for(lambda: program.answer() == 2)
        program.confine(1)
        wait_for(lambda: program.answer("fork") == 1)


def test_it_is_told():
    code = "import numpy, time; time.sleep(0.1); import tf_malleable, json; time.sleep(0.1)"
    code += "; print(json.dumps([(o.path, o.follows) for o in tf_malleable.openmp_libraries()]))"
    done = subprocess.run(
        [TFM, "run", "--", sys.executable, "-c", code], check=True, capture_output=True, text=True
    )
    ((path, follows),) = json.loads(done.stdout)
    assert "openblas" in path
    assert follows == "at op boundaries"


@pytest.mark.slow
def test_results_are_right_while_limits_change():
    seed = str(int.from_bytes(os.urandom(4), "big"))
    done = subprocess.run(
        [TFM, "run", "--", sys.executable, "-c", STRESS, "8", "100000", seed],
        check=True,
        capture_output=True,
        text=True,
        timeout=DEADLINE,
    )
    found = json.loads(done.stdout)
    assert found["wrong"] == [], seed
    assert found["forks"] > 0
    assert found["products"] > 0


@pytest.fixture(params=["pthread", "openmp"])
def blis(request):
    """Debian's BLIS, with threads of its own or with teams of OpenMP."""
    found = [*Path("/usr/lib").glob(f"*/blis-{request.param}/libblis.so.4")]
    if not found:
        pytest.skip(f"needs libblis4-{request.param}")
    return str(found[0])


def with_blis(library: str, **said: str) -> Teams:
    """Return the program that computes with BLIS."""
    return Teams(sys.executable, "-c", WITH_BLIS, library, cpus=2, **said)


@pytest.mark.parametrize("variable", ["BLIS_NUM_THREADS", "OMP_NUM_THREADS"])
def test_blis_follows_up_to_the_number_that_is_set(blis, variable):
    with with_blis(blis, **{variable: "8"}) as program:
        for count in (2, 1, 2, 1):
            program.confine(count)
            wait_for(lambda n=count: program.answer() == n)
    with with_blis(blis, **{variable: "1"}) as program:
        assert program.answers("") == [1, 1, 1]


def test_what_a_program_tells_blis_is_an_upper_bound(blis):
    with with_blis(blis, BLIS_NUM_THREADS="8") as program:
        wait_for(lambda: program.answer() == 2)
        program.answer("set 1")
        assert program.answers("") == [1, 1, 1]
        program.answer("set 2")
        wait_for(lambda: program.answer() == 2)


def test_without_a_number_blis_computes_in_one_thread_as_in_stock(blis):
    with with_blis(blis) as program:
        assert program.answers("") == [-1, -1, -1]
        program.answer("set 8")
        for count in (2, 1, 2):
            program.confine(count)
            wait_for(lambda n=count: program.answer() == n)
