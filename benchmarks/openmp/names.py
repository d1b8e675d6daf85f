# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Names of what the benchmark of OpenMP measures."""

from __future__ import annotations

from typing import Final

WORKLOADS: Final = {
    "numpy-matmul": "NumPy's product of two matrices of 768 × 768",
    "numpy-solve": "768 linear systems of as many variables with NumPy",
    "torch-matmul": "a product of two matrices of 768 × 768",
    "torch-convolution": "a training step of a convolution",
    "torch-transformer": "a training step of a transformer's block",
    "torch-lstm": "a training step of an LSTM",
    "sklearn-kmeans": "20 iterations of k-means",
    "sklearn-boosting": "20 trees of HistGradientBoosting",
    "sklearn-neighbors": "nearest neighbours of 2000 points, by brute force",
    "lightgbm-train": "20 trees of LightGBM",
    "xgboost-train": "10 trees of XGBoost",
    "numba-prange": "a sum in a prange",
}
WAYS: Final = ("limited", "confined", "untouched")
