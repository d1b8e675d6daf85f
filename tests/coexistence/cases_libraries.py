# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""TensorFlow, PyTorch and JAX in one process.

The order in which they are imported is an argument, so nothing here imports them at its top.
"""

import importlib
import random
import threading
import time
from collections.abc import Callable
from typing import Any

import numpy as np

SIZE = 256
TORCH_THREADS = 3

Product = Callable[[], np.ndarray]


def _factors() -> np.ndarray:
    """Return two matrices of small whole numbers: their product is exact in any order."""
    return np.random.default_rng(5).integers(-3, 4, (2, SIZE, SIZE)).astype(np.float32)


_LEFT, _RIGHT = _factors().astype(np.int64)
EXPECTED = _LEFT @ _RIGHT


def _tensorflow() -> Product:
    import tensorflow as tf

    left, right = map(tf.constant, _factors())
    plain = tf.function(tf.matmul)
    compiled = tf.function(tf.matmul, jit_compile=True)
    return lambda: np.stack([plain(left, right).numpy(), compiled(left, right).numpy()])


def _torch() -> Product:
    import torch

    torch.set_num_threads(TORCH_THREADS)
    left, right = map(torch.from_numpy, _factors())
    return lambda: torch.matmul(left, right).numpy()


def _jax() -> Product:
    import jax
    import jax.numpy as jnp

    left, right = map(jnp.asarray, _factors())
    compiled = jax.jit(jnp.matmul)
    return lambda: np.asarray(compiled(left, right))


PRODUCTS = {"tensorflow": _tensorflow, "torch": _torch, "jax": _jax}


def _is_right(product: Product) -> bool:
    return bool((product() == EXPECTED).all())


def with_limits(order: list[str], capacity: int, changes: int) -> dict[str, Any]:
    """Import modules in this order; compute with all at once while limits change."""
    for name in order:
        importlib.import_module(name)
    import torch

    import tf_malleable as tfm

    products: dict[str, Product] = {}
    built, wrong = {}, []
    for name in order:
        if name in PRODUCTS:
            before = {pool.id for pool in tfm.pools()}
            products[name] = PRODUCTS[name]()
            if not _is_right(products[name]):
                wrong.append(name)
            built[name] = [pool.name for pool in tfm.pools() if pool.id not in before]

    over = threading.Event()
    rounds = dict.fromkeys(products, 0)

    def compute(name: str) -> None:
        while not over.is_set():
            if not _is_right(products[name]):
                wrong.append(name)
            rounds[name] += 1

    threads = [threading.Thread(target=compute, args=[name]) for name in products]
    for thread in threads:
        thread.start()
    rng = random.Random(1)
    try:
        for _ in range(changes):
            tfm.set_threads(intra=rng.randint(1, capacity), inter=rng.randint(1, capacity))
            time.sleep(0.001)
        tfm.set_threads(1)
        settled = tfm.wait_settled(10)
        above = set()
        for _ in range(200):
            above |= {pool.name for pool in tfm.pools() if pool.active > pool.limit}
            time.sleep(0.001)
    finally:
        over.set()
        for thread in threads:
            thread.join()
    return {
        "backend": tfm.backend(),
        "built": built,
        "wrong": wrong,
        "rounds": rounds,
        "settled": settled,
        "above": sorted(above),
        "limits": [pool.limit for pool in tfm.pools()],
        "torch_threads": torch.get_num_threads(),
    }


def too_late(order: list[str]) -> dict[str, Any]:
    """Import modules in this order, TensorFlow before tf_malleable; compute with all."""
    for name in order:
        importlib.import_module(name)
    import tf_malleable as tfm

    said = ""
    try:
        tfm.set_threads(1)
    except tfm.NotMalleableError as error:
        said = str(error)
    wrong = [name for name in order if name in PRODUCTS and not _is_right(PRODUCTS[name]())]
    return {"backend": tfm.backend(), "said": said, "wrong": wrong}


def with_threadpoolctl() -> dict[str, list[int]]:
    """Return TensorFlow's limit and PyTorch's threads while threadpoolctl limits some APIs."""
    for name in ("tf_malleable", "tensorflow", "torch"):
        importlib.import_module(name)
    import threadpoolctl
    import torch

    import tf_malleable as tfm

    _tensorflow()()
    _torch()()
    tfm.set_threads(4)

    def now() -> list[int]:
        return [tfm.get_threads().intra, torch.get_num_threads()]

    seen = {"at first": now()}
    for api in ("tensorflow", "openmp", None):
        with threadpoolctl.threadpool_limits(2, user_api=api):
            seen[api or "all"] = now()
    seen["at last"] = now()
    return seen
