# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""A small program without TensorFlow that joins the controller by itself."""

from __future__ import annotations

import argparse

import numpy as np

import tf_malleable as tfm


def main() -> None:
    """Compute."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, required=True, help="products to compute")
    parser.add_argument("--size", type=int, default=300, help="of the matrices")
    options = parser.parse_args()

    tfm.join("tiny")
    matrix = np.random.default_rng(1).normal(size=(options.size, options.size))
    matrix /= options.size**0.5
    product = matrix
    for step in range(1, options.steps + 1):
        product = product @ matrix
        tfm.progress(step, options.steps)
    print(f"norm {np.linalg.norm(product):.3f} after {options.steps} steps")


if __name__ == "__main__":
    main()
