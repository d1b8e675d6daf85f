# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""A Keras service under Poisson load, which knows nothing of tf_malleable.

Arguments: the rate, or 0 to measure the capacity; the seconds. Prints the requests a second that
two threads can serve, or a JSON list with the begin and the latency of each request. Latencies
count from the time at which a request was to arrive (no coordinated omission).
"""

import json
import queue
import random
import sys
import threading
import time

import keras
import numpy as np

_THREADS = 2
_WARM_UP = 20


def _model() -> keras.Model:
    image = hidden = keras.Input((64, 64, 3))
    for filters in (32, 48, 48):
        hidden = keras.layers.Conv2D(filters, 3, activation="relu", padding="same")(hidden)
    pooled = keras.layers.GlobalAveragePooling2D()(hidden)
    return keras.Model(image, keras.layers.Dense(10)(pooled))


def main(rate: float, seconds: float) -> None:
    """Serve requests for some seconds."""
    model, image = _model(), np.zeros((1, 64, 64, 3), "f4")
    for _ in range(_WARM_UP):
        model.predict_on_batch(image)
    arrivals: queue.SimpleQueue[float | None] = queue.SimpleQueue()
    served: list[tuple[float, float]] = []

    def work() -> None:
        while (at := arrivals.get()) is not None:
            model.predict_on_batch(image)
            served.append((at - begin, time.monotonic() - at))

    threads = [threading.Thread(target=work) for _ in range(_THREADS)]
    begin = at = time.monotonic()
    for thread in threads:
        thread.start()
    if rate:
        draw = random.Random(1)
        while (at := at + draw.expovariate(rate)) < begin + seconds:
            time.sleep(max(0.0, at - time.monotonic()))
            arrivals.put(at)
    else:
        while time.monotonic() < begin + seconds:
            if arrivals.qsize() < _THREADS:
                arrivals.put(time.monotonic())
            time.sleep(0.0002)
    for _ in threads:
        arrivals.put(None)
    for thread in threads:
        thread.join()
    print(json.dumps(served if rate else len(served) / seconds), flush=True)


if __name__ == "__main__":
    main(float(sys.argv[1]), float(sys.argv[2]))
