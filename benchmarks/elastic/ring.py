# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""One of the processes that sum vectors by TensorFlow's own ring, without tf_malleable.

It does so as MultiWorkerMirroredStrategy sums gradients; TF_CONFIG says who the others are.
"""

from __future__ import annotations

import json
import os
import sys
import time

import numpy as np
import tensorflow as tf

_LAST_SECONDS = 2.0


def main(words: int, times: int, warm_up: int) -> list[tuple[float, float]]:
    """Sum with the others; return wall and CPU time of each, in seconds."""
    ring = tf.distribute.experimental.CommunicationImplementation.RING
    options = tf.distribute.experimental.CommunicationOptions(implementation=ring)
    strategy = tf.distribute.MultiWorkerMirroredStrategy(communication_options=options)

    index = json.loads(os.environ["TF_CONFIG"])["task"]["index"]
    vector = tf.constant(np.random.default_rng(index).random(words, np.float32))

    def replica() -> tf.Tensor:
        # Not reduced where it is, but where the replica is.
        return tf.distribute.get_replica_context().all_reduce("sum", tf.identity(vector))

    @tf.function
    def add() -> tf.Tensor:
        return strategy.run(replica)

    found = []
    for _ in range(times + warm_up):
        wall, cpu = time.perf_counter(), time.process_time()
        float(add()[-1])
        found.append((time.perf_counter() - wall, time.process_time() - cpu))
    return found[warm_up:]


if __name__ == "__main__":
    print(json.dumps(main(*map(int, sys.argv[1:]))), flush=True)
    # Another one may still wait for the last bytes of this one.
    time.sleep(_LAST_SECONDS)
    os._exit(0)
