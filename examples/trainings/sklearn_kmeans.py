# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""A training with scikit-learn: clusters of a made-up stream of points.

An ordinary program. It knows nothing of tf_malleable, and reports no steps.
"""

from __future__ import annotations

import argparse

import numpy as np
from sklearn.cluster import MiniBatchKMeans

_COORDINATES = 64
_CLUSTERS = 256


def main() -> None:
    """Train."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, required=True, help="batches to train on")
    parser.add_argument("--size", type=int, default=8192, help="points of a batch")
    options = parser.parse_args()

    random = np.random.default_rng(1)
    points = random.normal(size=(options.size, _COORDINATES))
    model = MiniBatchKMeans(_CLUSTERS, n_init=1, random_state=1)
    for _ in range(options.steps):
        model.partial_fit(points + random.normal(size=_COORDINATES) / 10)
    print(f"inertia {-model.score(points):.0f} after {options.steps} steps")


if __name__ == "__main__":
    main()
