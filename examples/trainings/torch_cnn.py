# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""A training with PyTorch: a CNN on images of digits.

An ordinary program. It knows nothing of tf_malleable.
"""

from __future__ import annotations

import argparse
import time

import torch
from sklearn.datasets import load_digits
from torch import nn

_BATCH = 64


def main() -> None:
    """Train."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, required=True, help="batches to train on")
    parser.add_argument("--size", type=int, default=64, help="filters of the convolutions")
    options = parser.parse_args()

    torch.manual_seed(1)
    pixels, digits = load_digits(return_X_y=True)
    images = torch.tensor(pixels, dtype=torch.float32).reshape(-1, 1, 8, 8) / 16
    labels = torch.tensor(digits)
    size = options.size
    model = nn.Sequential(
        nn.Conv2d(1, size, 3, padding=1),
        nn.ReLU(),
        nn.Conv2d(size, 2 * size, 3, padding=1),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Flatten(),
        nn.Linear(32 * size, 128),
        nn.ReLU(),
        nn.Linear(128, 10),
    )
    optimizer = torch.optim.Adam(model.parameters())
    begin = time.perf_counter()
    for _ in range(options.steps):
        chosen = torch.randint(len(labels), (_BATCH,))
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(images[chosen]), labels[chosen]).backward()
        optimizer.step()
    rate = options.steps / (time.perf_counter() - begin)
    with torch.no_grad():
        accuracy = (model(images).argmax(1) == labels).float().mean()
    print(f"accuracy {accuracy:.3f} after {options.steps} steps, {rate:.1f} a second")


if __name__ == "__main__":
    main()
