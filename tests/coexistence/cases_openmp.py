# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Computes with a library that uses OpenMP; as a program of `tfm run`, prints JSON.

While anything is computed, tf_malleable is not imported, as the library's users do not import it.
"""

from __future__ import annotations

import ctypes
import json
import os
import random
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict
from pathlib import Path

import numpy as np

Case = Callable[[], np.ndarray]
ROWS, COLUMNS = 3000, 12
# Sums of floating-point numbers depend on the number of threads that add them up, without us, too.
ROUNDING = 1e-4
THREADS_OF_PYTHON = 4
CHANGES_FOR_A_FORK = 100
CHILD_SECONDS = 60


def _data() -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    x = rng.normal(size=(ROWS, COLUMNS))
    return x, x[:, 0] + x[:, 1] ** 2


def _torch() -> dict[str, Case]:
    import torch

    torch.manual_seed(0)
    left, right = torch.randn(96, 256).bfloat16(), torch.randn(256, 192).bfloat16()
    whole = torch.randint(-3, 4, (256, 256)).float()
    long = torch.randint(-3, 4, (400_000,)).float()
    lstm, sequence = torch.nn.LSTM(64, 64, 2, batch_first=True), torch.randn(8, 20, 64)
    convolution, image = torch.nn.Conv2d(8, 16, 3), torch.randn(8, 8, 32, 32)
    block = torch.nn.TransformerEncoderLayer(64, 4, batch_first=True, dropout=0.0)

    def step(module: torch.nn.Module, weight: torch.Tensor, x: torch.Tensor) -> np.ndarray:
        y = module(x)
        (gradient,) = torch.autograd.grad(y.square().mean(), weight)
        return np.concatenate([y.detach().numpy().ravel(), gradient.numpy().ravel()])

    @torch.compile
    def fused(x: torch.Tensor) -> torch.Tensor:
        return (torch.softmax(x, -1) * torch.tanh(x)).sum(0)

    rows = torch.randn(512, 1000)

    def run_lstm() -> np.ndarray:
        with torch.no_grad():
            return lstm(sequence)[0].numpy()

    return {
        "bfloat16": lambda: (left @ right).float().numpy(),
        "matmul": lambda: (whole @ whole).numpy(),
        "sum": lambda: np.array([long.sum().item(), long.max().item()]),
        "sort": lambda: torch.sort(long)[0].numpy(),
        "cumsum": lambda: torch.cumsum(long, 0).numpy(),
        "lstm": run_lstm,
        "compiled": lambda: fused(rows).numpy(),
        "convolution": lambda: step(convolution, convolution.weight, image),
        "transformer": lambda: step(block, block.linear1.weight, sequence),
    }


def _sklearn() -> dict[str, Case]:
    from sklearn.cluster import KMeans
    from sklearn.ensemble import HistGradientBoostingRegressor
    from sklearn.metrics import pairwise_distances_argmin_min
    from sklearn.neighbors import NearestNeighbors

    x, y = _data()
    some = x[: ROWS // 2]
    neighbors = NearestNeighbors(n_neighbors=5, algorithm="brute").fit(x)
    return {
        "neighbors": lambda: neighbors.kneighbors(some)[1],
        "argmin": lambda: np.stack(pairwise_distances_argmin_min(some, x[::2] + 1)),
        "kmeans": lambda: KMeans(5, n_init=1, max_iter=8, random_state=0).fit(x).labels_,
        "boosting": lambda: HistGradientBoostingRegressor(max_iter=5).fit(x, y).predict(some),
    }


def _lightgbm() -> dict[str, Case]:
    import lightgbm

    x, y = _data()

    def fit(**parameters: object) -> np.ndarray:
        parameters = {"verbose": -1, "num_leaves": 15, "deterministic": True, **parameters}
        return np.asarray(lightgbm.train(parameters, lightgbm.Dataset(x, y), 10).predict(x))

    return {
        "by row": lambda: fit(force_row_wise=True),
        "by column": lambda: fit(force_col_wise=True, bagging_fraction=0.6, bagging_freq=1),
    }


def _xgboost() -> dict[str, Case]:
    import xgboost

    x, y = _data()

    def fit(method: str) -> np.ndarray:
        data = xgboost.DMatrix(x, y)
        booster = xgboost.train({"tree_method": method, "max_depth": 4}, data, 5)
        return np.asarray(booster.predict(data))

    return {"hist": lambda: fit("hist"), "approx": lambda: fit("approx")}


def _numba() -> dict[str, Case]:
    import numba

    numba.config.THREADING_LAYER = "omp"

    @numba.njit(parallel=True)
    def total(x):
        found = 0.0
        for i in numba.prange(x.shape[0]):
            found += x[i]
        return found

    @numba.njit(parallel=True)
    def doubled(x):
        found = np.empty_like(x)
        for i in numba.prange(x.shape[0]):
            found[i] = 2 * x[i] + 1
        return found

    whole = np.random.default_rng(0).integers(-5, 5, 200_000).astype(np.float64)
    return {"sum": lambda: np.array([total(whole)]), "elements": lambda: doubled(whole)}


def _numpy() -> dict[str, Case]:
    rng = np.random.default_rng(0)
    whole = rng.integers(-5, 5, (300, 300)).astype(np.float64)
    positive = whole @ whole.T + 1000 * np.eye(len(whole))
    return {
        "product": lambda: whole @ whole.T,
        "solve": lambda: np.linalg.solve(positive, whole),
        "cholesky": lambda: np.linalg.cholesky(positive),
    }


CASES = {
    "numpy": _numpy,
    "torch": _torch,
    "sklearn": _sklearn,
    "lightgbm": _lightgbm,
    "xgboost": _xgboost,
    "numba": _numba,
}


def _is_same(found: np.ndarray, expected: np.ndarray) -> bool:
    return found.shape == expected.shape and np.allclose(found, expected, ROUNDING, ROUNDING)


def wrong_while_limits_change(
    library: str, capacity: int, changes: int, milliseconds: int
) -> dict[str, object]:
    """Compute while limits change at random: in one thread and forked children, then in several.

    Args:
        library: One of CASES.
        capacity: Highest limit.
        changes: Number of changes in each of both parts.
        milliseconds: Longest time between two changes.
    """
    hook = ctypes.CDLL(None)
    cases = CASES[library]()
    expected = {name: case() for name, case in cases.items()}
    over = threading.Event()
    made = rounds = forks = 0

    def change() -> None:
        nonlocal made
        rng = random.Random(1)
        while not over.is_set():
            hook.tfm_openmp_set_limit(rng.randint(1, capacity))
            made += 1
            time.sleep(rng.random() * milliseconds / 1000)

    wrong: list[str] = []

    def compute() -> None:
        nonlocal rounds
        rounds += 1
        wrong.extend(name for name, case in cases.items() if not _is_same(case(), expected[name]))

    def compute_for_long() -> None:
        while made < 2 * changes:
            compute()

    changing = threading.Thread(target=change)
    changing.start()
    while made < changes:
        compute()
        # numba ends a child that was forked after a team of libgomp.
        if library != "numba" and made > (forks + 1) * CHANGES_FOR_A_FORK:
            forks += 1
            wrong.extend(_wrong_in_child(compute, wrong))
    # numba's teams of OpenMP are not for several threads.
    threads = 1 if library == "numba" else THREADS_OF_PYTHON
    several = [threading.Thread(target=compute_for_long) for _ in range(threads)]
    for thread in several:
        thread.start()
    for thread in several:
        thread.join()
    over.set()
    changing.join()
    return {"wrong": sorted(set(wrong)), "rounds": rounds, "changes": made, "forks": forks}


def _wrong_in_child(compute: Callable[[], None], wrong: list[str]) -> list[str]:
    """Compute in a forked child; return what went wrong there."""
    child = os.fork()
    if child == 0:
        signal.alarm(CHILD_SECONDS)
        wrong.clear()
        compute()
        os._exit(len(wrong))
    status = os.waitpid(child, 0)[1]
    return [f"a child ended with {status}"] if status else []


def follow() -> Iterator[int]:
    """Yield the size of the next team of torch's own libgomp, after each operation."""
    import torch

    (path,) = (Path(torch.__file__).parent / "lib").glob("libgomp*")
    runtime = ctypes.CDLL(str(path))
    x = torch.ones(1_000_000)
    while True:
        torch.sum(x)
        yield runtime.omp_get_max_threads()
        time.sleep(0.01)


def load_in_workers(capacity: int) -> dict[str, object]:
    """Load batches in forked workers of torch while limits change."""
    import torch
    from torch.utils.data import DataLoader, TensorDataset

    hook = ctypes.CDLL(None)
    x = torch.arange(4000, dtype=torch.float32).reshape(400, 10)
    rng = random.Random(2)
    sums = []
    for _ in range(5):
        loader = DataLoader(TensorDataset(x), batch_size=20, num_workers=2)
        total = 0.0
        for (batch,) in loader:
            hook.tfm_openmp_set_limit(rng.randint(1, capacity))
            total += (batch @ batch.T).trace().item()
        sums.append(total)
    child = os.fork()
    if child == 0:
        hook.tfm_openmp_set_limit(1)
        os._exit(0 if torch.ones(1000).sum().item() == 1000 else 1)
    return {"sums": sums, "expected": (x * x).sum().item(), "child": os.waitpid(child, 0)[1]}


def regions(library: str) -> dict[str, list[int]]:
    """Return how many regions count in one computation of each case, with a limit of 1 and of 4."""
    from tf_malleable.runtime import openmp

    found: dict[str, list[int]] = {}
    for name, case in CASES[library]().items():
        case()
        found[name] = []
        for limit in (1, 4):
            openmp.set_limit(limit)
            case()
            before = openmp.regions()
            case()
            found[name].append(openmp.regions() - before)
    return found


def classes(library: str) -> dict[str, object]:
    """Compute once; return what the hook says of the libraries, and what is seen from outside."""
    for case in CASES[library]().values():
        case()
    from tf_malleable import openmp_libraries
    from tf_malleable.controller.processes.thread_libraries import (
        InspectedProcess,
        thread_libraries,
    )
    from tf_malleable.linux.processes.memory_map import environment, memory_map

    here = os.getpid()
    seen = InspectedProcess(memory_map(here) or b"", environment(here) or b"")
    return {
        "hook": {each.path: each.follows for each in openmp_libraries()},
        "seen": [asdict(each) for each in thread_libraries(seen, os.cpu_count() or 1)],
    }


def main() -> None:
    """Do what the arguments say."""
    what, *arguments = sys.argv[1:]
    if what == "follow":
        before = None
        for threads in follow():
            if threads != before:
                print(threads, flush=True)
            before = threads
    elif what == "classes":
        print(json.dumps(classes(*arguments)))
    elif what == "regions":
        print(json.dumps(regions(*arguments)))
    elif what == "load":
        print(json.dumps(load_in_workers(int(arguments[0]))))
    else:
        print(json.dumps(wrong_while_limits_change(what, *map(int, arguments))))


if __name__ == "__main__":
    main()
