# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""What can be measured, and what the words for it mean. Nothing heavy is imported here."""

from __future__ import annotations

from typing import Final

ROOM: Final = "room"
WORKER_KILLED: Final = "worker-killed"
TERM: Final = "term"
WAY: Final = "way"
REFUSED: Final = "refused"
OPERATOR_KILLED: Final = "operator-killed"
OPERATOR_LEADS: Final = "operator-leads"
GROWTH: Final = "growth"
MEASURES: Final = {
    ROOM: "from room on a node to a worker that has shards",
    WORKER_KILLED: "from SIGKILL of a worker to a generation without it",
    TERM: "from SIGTERM of a worker's pod, at any moment of its life, until it is gone",
    WAY: "changes of a worker's CPUs for a pod of somebody else that fits only then",
    REFUSED: "calls of the API server while ten jobs' pods are refused",
    OPERATOR_KILLED: "short trainings, in each of which the operator is killed",
    OPERATOR_LEADS: "from SIGKILL of the operator until one leads again",
    GROWTH: "a training whose room doubles at a third of it, against fixed workers",
}
SIZES: Final = {
    "times": (5, "of room, and of kills of workers and operators"),
    "moments": (10, "at which a pod is to end"),
    "rounds": (50, "of making way"),
    "kills": (100, "of operators in short trainings"),
    "seconds": (120, "for which calls are counted, and before that until all are refused"),
    "length": (600, "of the training that grows, in seconds with one worker"),
}
"""The options that say how much is measured: their defaults, and what they count."""
