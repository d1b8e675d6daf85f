# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Exceptions. Invalid arguments raise ValueError instead."""


class NotMalleableError(RuntimeError):
    """TensorFlow's threads in this process cannot be controlled.

    The message says why, and how to fix it.
    """


class ControllerError(RuntimeError):
    """The controller refuses a request. The message is one sentence with the reason.

    Attributes:
        status: HTTP status of the controller's response, for example 409.
    """

    def __init__(self, status: int, sentence: str) -> None:
        super().__init__(sentence)
        self.status = status


class OperationError(RuntimeError):
    """A valid request failed. (An invalid request raises ValueError.)

    The message is one sentence for the user.

    Attributes:
        exit_code: Exit code of a command that fails with this error.
    """

    exit_code = 1
