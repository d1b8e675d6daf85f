# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Sentences on the assumptions about jobs whose source is incomplete."""

from __future__ import annotations

from tf_malleable.simulate.engine.workload import Assumed


def about_curve(assumed: Assumed) -> str:
    """Return the assumption on speed-ups."""
    return f"every job's speed-up curve is {assumed.curve_text}"


def about_phases(assumed: Assumed) -> tuple[str, ...]:
    """Return the assumptions on a job's phases and its reports."""
    if assumed.starting:
        start = f"starting takes {assumed.starting:g} s on one core"
    else:
        start = "starting takes no time"
    return (start, "no job waits for input", about_steps(assumed))


def about_steps(assumed: Assumed) -> str:
    """Return the assumption on the steps that jobs report."""
    if assumed.steps is None:
        return "no job reports steps"
    return f"every job reports {assumed.steps:g} steps, all with the same work"
