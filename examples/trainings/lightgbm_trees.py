# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""A training with LightGBM: boosted trees on a made-up table.

An ordinary program. It knows nothing of tf_malleable.
"""

from __future__ import annotations

import argparse

import lightgbm
import numpy as np

_COLUMNS = 40


def main() -> None:
    """Train."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, required=True, help="trees")
    parser.add_argument("--size", type=int, default=40_000, help="rows of the table")
    options = parser.parse_args()

    random = np.random.default_rng(1)
    table = random.normal(size=(options.size, _COLUMNS))
    target = table[:, 0] * table[:, 1] + np.sin(table[:, 2]) + random.normal(size=options.size) / 10
    data = lightgbm.Dataset(table, target, params={"verbose": -1})
    model = lightgbm.train({"verbose": -1, "seed": 1}, data, options.steps)
    error = float(np.mean((model.predict(table) - target) ** 2))
    print(f"mean squared error {error:.3f} after {options.steps} steps, a tree each")


if __name__ == "__main__":
    main()
