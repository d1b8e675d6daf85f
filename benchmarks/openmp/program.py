# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""A program that computes with one library, as a line of stdin says, and prints JSON.

For a line "SECONDS LIMIT" of stdin it computes for so long and prints operations a second and
CPU seconds an operation; before, it sets the limit unless that is 0. For a line "enlarge COUNT
FIRST LATER" it prints the seconds of so many operations, of which the first third has one limit,
and the rest the other. For a line "settle COUNT LOW HIGH" it prints how soon it follows changes.
"""

from __future__ import annotations

import ctypes
import json
import os
import random
import sys
import threading
import time
from collections.abc import Callable

import numpy as np

ROWS = 20_000


def _numpy(name: str) -> Callable[[], object]:
    x = np.random.default_rng(0).normal(size=(768, 768))
    return (lambda: x @ x) if name == "matmul" else (lambda: np.linalg.solve(x, x))


def _torch(name: str) -> Callable[[], object]:
    import torch

    torch.manual_seed(0)
    if name == "matmul":
        x = torch.randn(768, 768)
        return lambda: x @ x
    if name == "convolution":
        module, x = torch.nn.Conv2d(16, 32, 3), torch.randn(16, 16, 48, 48)
    elif name == "transformer":
        module = torch.nn.TransformerEncoderLayer(128, 4, batch_first=True)
        x = torch.randn(16, 64, 128)
    else:
        module, x = torch.nn.LSTM(128, 128, batch_first=True), torch.randn(32, 24, 128)
    optimizer = torch.optim.SGD(module.parameters(), lr=1e-4)

    def step() -> None:
        optimizer.zero_grad()
        found = module(x)
        (found[0] if isinstance(found, tuple) else found).square().mean().backward()
        optimizer.step()

    return step


def _sklearn(name: str) -> Callable[[], object]:
    from sklearn.cluster import KMeans
    from sklearn.ensemble import HistGradientBoostingRegressor
    from sklearn.neighbors import NearestNeighbors

    x = np.random.default_rng(0).normal(size=(ROWS, 16))
    if name == "kmeans":
        return lambda: KMeans(16, n_init=1, max_iter=20, tol=0, random_state=0).fit(x)
    if name == "boosting":
        y = x[:, 0] + x[:, 1] ** 2
        return lambda: HistGradientBoostingRegressor(max_iter=20, early_stopping=False).fit(x, y)
    neighbors = NearestNeighbors(n_neighbors=5, algorithm="brute").fit(x)
    return lambda: neighbors.kneighbors(x[:2000])


def _lightgbm(_: str) -> Callable[[], object]:
    import lightgbm

    x = np.random.default_rng(0).normal(size=(ROWS, 16))
    data = lightgbm.Dataset(x, x[:, 0] + x[:, 1] ** 2, params={"verbose": -1}).construct()
    return lambda: lightgbm.train({"verbose": -1}, data, 20)


def _xgboost(_: str) -> Callable[[], object]:
    import xgboost

    x = np.random.default_rng(0).normal(size=(ROWS, 16))
    data = xgboost.DMatrix(x, x[:, 0] + x[:, 1] ** 2)
    return lambda: xgboost.train({"tree_method": "hist"}, data, 10)


def _numba(_: str) -> Callable[[], object]:
    import numba

    numba.config.THREADING_LAYER = "omp"

    @numba.njit(parallel=True)
    def compute(x: np.ndarray) -> float:
        found = 0.0
        for i in numba.prange(x.shape[0]):
            found += np.sin(x[i]) * np.sqrt(x[i])
        return found

    x = np.random.default_rng(0).random(2_000_000)
    return lambda: compute(x)


LIBRARIES = {
    "numpy": _numpy,
    "torch": _torch,
    "sklearn": _sklearn,
    "lightgbm": _lightgbm,
    "xgboost": _xgboost,
    "numba": _numba,
}


def main() -> None:
    """Do what stdin says."""
    library, _, name = sys.argv[1].partition("-")
    operate = LIBRARIES[library](name)
    operate()
    for line in sys.stdin:
        what, *words = line.split()
        if what in ("enlarge", "settle"):
            measure = enlarge if what == "enlarge" else settle
            print(json.dumps(measure(operate, *map(int, words))), flush=True)
        else:
            print(json.dumps(run(operate, what, *words)), flush=True)


def set_limit(threads: int) -> None:
    """Set the limit of this process."""
    ctypes.CDLL(None).tfm_openmp_set_limit(threads)


def enlarge(operate: Callable[[], object], count: int, first: int, later: int) -> list[float]:
    """Return the seconds of each operation; the limit changes after a third of them."""
    set_limit(first)
    operate()
    seconds = []
    for number in range(count):
        begin = time.perf_counter()
        if number == count // 3:
            set_limit(later)
        operate()
        seconds.append(time.perf_counter() - begin)
    return seconds


def settle(operate: Callable[[], object], count: int, low: int, high: int) -> list[float]:
    """Return by how many ms the program is late after each of so many changes of its limit.

    A change comes from another thread at a random moment of an operation. The program is late from
    the end of this operation to the begin of the first one that leaves as many threads as the new
    limit does. Empty if the threads of both limits are equally many, as OpenBLAS keeps its own.
    """
    threads = {limit: _threads_after(operate, limit) for limit in (low, high)}
    if threads[low] == threads[high]:
        return []
    begin = time.perf_counter()
    operate()
    seconds = time.perf_counter() - begin
    late = []
    for number in range(count):
        limit = high if number % 2 else low
        changed: list[float] = []

        def change(limit: int = limit, changed: list[float] = changed) -> None:
            set_limit(limit)
            changed.append(time.perf_counter())

        timer = threading.Timer(random.random() * seconds, change)
        timer.start()
        while not changed:
            operate()
        free = time.perf_counter()
        timer.join()
        while True:
            begin = time.perf_counter()
            operate()
            if _threads() == threads[limit]:
                break
        late.append(1000 * max(0.0, begin - free))
    return late


def _threads_after(operate: Callable[[], object], limit: int) -> int:
    set_limit(limit)
    for _ in range(3):
        operate()
    return _threads()


def _threads() -> int:
    return len(os.listdir("/proc/self/task"))


def run(operate: Callable[[], object], seconds: str, limit: str) -> dict[str, float]:
    """Compute for some seconds, with a limit unless that is 0; return the rates."""
    if int(limit):
        set_limit(int(limit))
        operate()
    done, begin, cpu = 0, time.perf_counter(), time.process_time()
    while time.perf_counter() - begin < float(seconds):
        operate()
        done += 1
    wall = time.perf_counter() - begin
    return {"per_second": done / wall, "cpu": (time.process_time() - cpu) / done}


if __name__ == "__main__":
    main()
