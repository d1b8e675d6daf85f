# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Traces of real systems, in their published formats."""

from tf_malleable.simulate.traces.trace_formats import FORMATS, is_trace, read_trace

__all__ = ["FORMATS", "is_trace", "read_trace"]
