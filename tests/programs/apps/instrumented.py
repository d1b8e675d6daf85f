# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""A program for opentelemetry-instrument: it reports whose tracers it has, and its limit."""

from __future__ import annotations

from limits import limit, report
from opentelemetry import trace

# Without the instrumentation it is a proxy of the API's.
tracers = type(trace.get_tracer_provider()).__module__.split(".")[1]
report(lambda: [tracers, limit()])
