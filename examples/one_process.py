# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Train a small CNN on real images while its threads change, and draw it.

The training is an ordinary Keras fit(). A thread beside it changes the limit,
as a controller would; no line of the training knows.
"""

from __future__ import annotations

import os
import sys
import threading
import time
from dataclasses import dataclass
from pathlib import Path

import tf_malleable as tfm  # Before tensorflow.

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

try:
    import keras
    import numpy as np
    from command_line import Parser
    from matplotlib.figure import Figure
    from sklearn.datasets import load_digits
except ModuleNotFoundError as missing:
    sys.exit(
        f"one-process: this example needs {missing.name}: pip install tensorflow matplotlib"
        " scikit-learn"
    )

from tf_malleable.figures import style
from tf_malleable.figures.formats import is_picture

SAMPLE_SECONDS = 0.5


@dataclass(frozen=True)
class Sample:
    """One stretch of the run: its end, in seconds, and what happened in it."""

    time: float
    limit: int
    steps_per_second: float
    cpus: float


class StepCounter(keras.callbacks.Callback):
    """Counts training steps, and ends the training when told to."""

    def __init__(self) -> None:
        super().__init__()
        self.steps = 0
        self.stop = False

    def on_train_batch_end(self, batch: int, logs: object = None) -> None:
        """Count one step."""
        self.steps += 1
        self.model.stop_training = self.stop


def build_model() -> keras.Model:
    """Return a CNN for 8 x 8 grey images in 10 classes."""
    layers = keras.layers
    model = keras.Sequential(
        [
            layers.Input((8, 8, 1)),
            layers.Conv2D(64, 3, padding="same", activation="relu"),
            layers.Conv2D(128, 3, padding="same", activation="relu"),
            layers.MaxPooling2D(),
            layers.Flatten(),
            layers.Dense(128, activation="relu"),
            layers.Dense(10),
        ]
    )
    model.compile(
        optimizer="adam",
        loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True),
        metrics=["accuracy"],
        jit_compile=False,  # XLA's convolutions gain little by more threads.
    )
    return model


def watch(counter: StepCounter, phases: list[int], seconds: float) -> list[Sample]:
    """Change the limit phase by phase while the training runs; sample it."""
    samples: list[Sample] = []
    start = time.perf_counter()
    print(f"{'phase':>5} {'threads':>7} {'steps/s':>8} {'CPUs':>6}")
    for number, limit in enumerate(phases, 1):
        tfm.set_threads(limit)
        phase_start, phase_steps, phase_cpu = (
            time.perf_counter(),
            counter.steps,
            time.process_time(),
        )
        while time.perf_counter() - phase_start < seconds:
            before, steps, cpu = time.perf_counter(), counter.steps, time.process_time()
            time.sleep(SAMPLE_SECONDS)
            now = time.perf_counter()
            samples.append(
                Sample(
                    now - start,
                    limit,
                    (counter.steps - steps) / (now - before),
                    (time.process_time() - cpu) / (now - before),
                )
            )
        elapsed = time.perf_counter() - phase_start
        print(
            f"{number:5d} {limit:7d} {(counter.steps - phase_steps) / elapsed:8.1f}"
            f" {(time.process_time() - phase_cpu) / elapsed:6.2f}",
            flush=True,
        )
    return samples


def draw(samples: list[Sample], path: Path) -> None:
    """Write a picture of threads, CPUs used and throughput over time."""
    times = [sample.time for sample in samples]
    figure = Figure(figsize=(8, 5), layout="constrained")
    above, below = figure.subplots(2, sharex=True)
    above.plot(times, [s.steps_per_second for s in samples], color=style.COLOURS[0])
    above.set_ylabel("steps / s")
    above.set_ylim(bottom=0)
    style.title(above, "One training, its threads changed while it runs")
    below.step(times, [s.limit for s in samples], where="pre", color="black", label="limit")
    below.plot(times, [s.cpus for s in samples], color=style.COLOURS[1], label="CPUs used")
    below.set_ylabel("threads")
    below.set_xlabel("time in s")
    below.set_ylim(bottom=0)
    below.legend(loc="lower right")
    for axes in (above, below):
        style.frame(axes, grid="y")
    path.parent.mkdir(parents=True, exist_ok=True)
    style.write(figure, path)


def main() -> int:
    """Run the example."""
    parser = Parser("one-process", description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=float, default=6.0, help="length of a phase")
    parser.add_argument("--out", type=Path, default=Path("out/one-process.png"), help="the picture")
    arguments = parser.parse_args()
    if not arguments.seconds >= 2 * SAMPLE_SECONDS:
        parser.error(f"--seconds must be at least {2 * SAMPLE_SECONDS}")
    if not is_picture(arguments.out):
        parser.error(f"--out must be a file .png or .svg, not {arguments.out.name!r}")

    images, labels = load_digits(return_X_y=True)
    images = (images.reshape(-1, 8, 8, 1) / 16).astype(np.float32)
    model = build_model()
    # Whole batches only, so that no step is smaller than the others.
    batch = 448
    whole = len(images) // batch * batch
    images, labels = images[:whole], labels[:whole]

    everything = len(os.sched_getaffinity(0))
    print(f"Training on {whole} digits, backend {tfm.backend()}, {everything} CPUs. Compiling …")
    model.fit(images, labels, batch_size=batch, epochs=2, verbose=0)

    counter = StepCounter()
    training = threading.Thread(
        target=lambda: model.fit(
            images, labels, batch_size=batch, epochs=10**6, verbose=0, callbacks=[counter]
        )
    )
    training.start()
    try:
        samples = watch(counter, [1, everything, 1, everything], arguments.seconds)
    except KeyboardInterrupt:
        return 130
    finally:
        counter.stop = True
        training.join()
    accuracy = model.evaluate(images, labels, verbose=0, return_dict=True)["accuracy"]
    draw(samples, arguments.out)
    print(f"Accuracy on the training images: {accuracy:.1%}. Picture: {arguments.out}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
