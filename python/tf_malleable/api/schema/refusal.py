# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Exception for refused requests."""

from __future__ import annotations


class Refusal(Exception):  # noqa: N818 - not an error of the program
    """The request is refused, with an HTTP status and one sentence; nothing has changed.

    Attributes:
        status: HTTP status code.
        sentence: Description of the problem, and of what is allowed.
    """

    def __init__(self, status: int, sentence: str) -> None:
        super().__init__(sentence)
        self.status = status
        self.sentence = sentence
