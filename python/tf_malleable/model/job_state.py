# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""State of a job."""

TYPE_CHECKING = False  # As in typing, which takes longer to load than all of this.
if TYPE_CHECKING:
    from typing import Literal

    JobState = Literal["waiting", "running", "paused"]

STATES = ("waiting", "running", "paused")


def __getattr__(name: str) -> object:
    if name == "JobState":
        from typing import Literal

        return Literal[STATES]
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
