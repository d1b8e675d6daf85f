# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Makes every Python started by `tfm run` load tf_malleable before tensorflow.

`tfm run` puts this folder on PYTHONPATH, so every Python it starts, directly or not, imports this
file, unless something replaces PYTHONPATH: see _tf_malleable_preload.
"""

import os
import sys

import _tf_malleable_preload  # noqa: F401


def _run_hidden_sitecustomize():
    """Run the sitecustomize that this one shadows, if any."""
    here = os.path.dirname(os.path.abspath(__file__))
    ours = sys.modules.pop("sitecustomize", None)
    without_us = [entry for entry in sys.path if os.path.abspath(entry) != here]
    sys.path[:] = without_us
    try:
        import sitecustomize  # noqa: F401
    except ImportError:
        sys.modules["sitecustomize"] = ours


_run_hidden_sitecustomize()
