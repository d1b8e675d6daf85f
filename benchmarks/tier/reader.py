# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Reads as a training does: a node's part of all files each epoch, in another order each time.

Prints a JSON object an epoch: seconds, the longest read, and whether all bytes were right.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import sys
import time
import zlib
from pathlib import Path

PIECE = 1 << 18


def main() -> None:
    """Read."""
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=Path)
    parser.add_argument("--codes", type=Path, required=True)
    parser.add_argument("--node", type=int, required=True)
    parser.add_argument("--nodes", type=int, required=True)
    parser.add_argument("--epochs", type=int, default=1)
    parser.add_argument("--same", action="store_true", help="All nodes read all, in one order.")
    parser.add_argument("--whole", type=Path, help="Copy each file here whole before it is read.")
    parser.add_argument("--compute", type=float, default=0.0, help="Seconds a MB.")
    options = parser.parse_args()
    codes: dict[str, int] = json.loads(options.codes.read_text())
    for epoch in range(options.epochs):
        sys.stdin.readline()  # All nodes begin an epoch together, as a training's do.
        names = sorted(codes)
        random.Random(epoch).shuffle(names)
        mine = names if options.same else names[options.node :: options.nodes]
        began, worst, right = time.monotonic(), 0.0, True
        for name in mine:
            path = options.folder / name
            if options.whole is not None:
                path = _copied(path, options.whole / name)
            code, longest = _read(path, options.compute)
            worst, right = max(worst, longest), right and code == codes[name]
        seconds = time.monotonic() - began
        print(json.dumps({"seconds": seconds, "worst": worst, "right": right}), flush=True)


def _copied(path: Path, copy: Path) -> Path:
    if not copy.exists():
        copy.parent.mkdir(parents=True, exist_ok=True)
        part = copy.with_name(copy.name + ".part")
        with open(path, "rb") as source, open(part, "wb") as target:
            while piece := source.read(PIECE):
                target.write(piece)
        part.rename(copy)
    return copy


def _read(path: Path, compute: float) -> tuple[int, float]:
    code, worst = 0, 0.0
    began = time.monotonic()
    file = os.open(path, os.O_RDONLY)
    worst = time.monotonic() - began
    try:
        while True:
            began = time.monotonic()
            piece = os.read(file, PIECE)
            worst = max(worst, time.monotonic() - began)
            if not piece:
                return code, worst
            code = zlib.crc32(piece, code)
            if compute:
                time.sleep(compute * len(piece) / 1e6)
    finally:
        os.close(file)


if __name__ == "__main__":
    main()
