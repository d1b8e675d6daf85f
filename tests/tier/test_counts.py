# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""The files in which jobs add up what they read do not stay for ever."""

from __future__ import annotations

import os
import time

from tf_malleable.tier.daemon import forget_counts

# Above the kernel's largest.
NOBODY = 1 << 23


def test_only_those_of_jobs_that_ended_long_ago_go(tmp_path):
    old = time.time() - 90_000
    for name, at in (
        (f"{NOBODY}-ended", old),
        (f"{NOBODY}-lately", time.time()),
        (f"{os.getpid()}-runs", old),
    ):
        file = tmp_path / name
        file.write_bytes(bytes(64))
        os.utime(file, (at, at))
    forget_counts(tmp_path)
    kept = sorted(file.name for file in tmp_path.iterdir())
    assert kept == sorted([f"{NOBODY}-lately", f"{os.getpid()}-runs"])
