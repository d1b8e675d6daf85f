# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""What can go wrong, beyond a bad argument (which is a ValueError)."""


class NotMalleableError(RuntimeError):
    """TensorFlow's threads in this process are beyond our reach.

    The message says why and what to do about it.
    """


class ControllerError(RuntimeError):
    """The controller refuses, and says why in one sentence: the message.

    Attributes:
        status: The HTTP status of its answer: 409, say.
    """

    def __init__(self, status: int, sentence: str) -> None:
        super().__init__(sentence)
        self.status = status


class OperationError(RuntimeError):
    """What was asked for failed; asked wrongly, it would be a ValueError.

    The message is one sentence for the person who asked.

    Attributes:
        exit_code: Of a command that fails so.
    """

    exit_code = 1
