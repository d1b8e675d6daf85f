# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""A program for an activated environment: it reports its prefix, and its limit."""

from __future__ import annotations

import os
import sys

from limits import limit, report

assert os.environ["PYTHONPATH"] == f"{sys.prefix}/modules"
report(lambda: [sys.prefix, limit()])
