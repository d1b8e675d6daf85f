# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""A program on uvloop's event loop that computes in the threads of an executor."""

import asyncio
import random
import threading
from typing import Any

import numpy as np
import tensorflow as tf
import uvloop

import tf_malleable as tfm


def products_while_the_loop_changes_limits(capacity: int, changes: int) -> dict[str, Any]:
    """Compute in two threads while the event loop changes limits."""
    # Of small whole numbers, so that products are exact in any order.
    left, right = np.random.default_rng(5).integers(-3, 4, (2, 256, 256)).astype(np.float32)
    expected = left @ right
    over = threading.Event()

    def compute() -> dict[str, int]:
        found = {"rounds": 0, "wrong": 0}
        while not over.is_set():
            found["rounds"] += 1
            found["wrong"] += not np.array_equal(tf.matmul(left, right).numpy(), expected)
        return found

    async def main() -> dict[str, Any]:
        loop = asyncio.get_running_loop()
        computing = [loop.run_in_executor(None, compute) for _ in range(2)]
        rng = random.Random(0)
        try:
            for _ in range(changes):
                tfm.set_threads(intra=rng.randint(1, capacity), inter=rng.randint(1, capacity))
                await asyncio.sleep(0.001)
        finally:
            over.set()
        results = await asyncio.gather(*computing)
        tfm.set_threads(1)
        return {
            "is_uvloop": isinstance(loop, uvloop.Loop),
            "rounds": [each["rounds"] for each in results],
            "wrong": [each["wrong"] for each in results],
            "settled": await loop.run_in_executor(None, tfm.wait_settled, 10),
            "limits": [pool.limit for pool in tfm.pools()],
        }

    return uvloop.run(main())
