# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""A Keras service under Poisson load, which knows nothing of tf_malleable.

Arguments: the seconds; how long a rate lasts; the rates in turn, or none to measure the capacity.
Prints JSON: the requests a second that two threads can serve; or the begin and the latency of each
request, and the CPU time meanwhile. Latencies count from the time at which a request was to arrive
(no coordinated omission).
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


def main(seconds: float, period: float, rates: list[float]) -> None:
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
    used = time.process_time()
    for thread in threads:
        thread.start()
    if rates:
        draw = random.Random(1)

        def rate() -> float:
            return rates[int((at - begin) / period) % len(rates)]

        while (at := at + draw.expovariate(rate())) < begin + seconds:
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
    used = time.process_time() - used
    result = {"served": served, "cpu_seconds": used} if rates else len(served) / seconds
    print(json.dumps(result), flush=True)


if __name__ == "__main__":
    main(float(sys.argv[1]), float(sys.argv[2]), [float(rate) for rate in sys.argv[3:]])
