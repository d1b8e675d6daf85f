# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""What can be measured, and what the words for it mean. Nothing heavy is imported here."""

from __future__ import annotations

from typing import Final

GROWTH: Final = {
    "static-1": "a training with one worker",
    "static-2": "the same with two, on two nodes",
    "grows": "with one, until a second node is uncordoned at a third of it",
}
JOBS: Final = {
    "split": "two trainings, a worker each",
    "queue": "one after the other, two workers each",
    "operator": "both at once, workers as the operator decides",
}
VERTICAL: Final = "vertical"
DEATHS: Final = {
    "deaths": "nodes that die, from a training without TensorFlow",
    "deaths-keras": "the same from a Keras training",
}
KILLS: Final = "kills"
MEASURES: Final = {
    **GROWTH,
    VERTICAL: "from a change of a job's CPUs to limits that have settled",
    **DEATHS,
    **JOBS,
    KILLS: "of workers, servers, coordinators, operators, nodes and API servers at random",
}
