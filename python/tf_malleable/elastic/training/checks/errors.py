# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Error of a training that cannot be elastic."""

from __future__ import annotations

from typing import Final

_FRONT: Final = "tf_malleable: elastic training: "


class RefusedError(SystemExit):
    """This training cannot be elastic, or cannot be kept exact.

    If it is not handled, Python prints the sentence and exits with 1, without a traceback.
    """

    def __init__(self, why: str) -> None:
        super().__init__(_FRONT + why)
