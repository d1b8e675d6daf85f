# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Messages for the user on stderr. Without click, as programs wait for `tfm run`."""

from __future__ import annotations

from tf_malleable.linux import standard_error
from tf_malleable.model.errors import OperationError

INTERRUPTED = 130
"""Exit code after Ctrl-C, as in a shell."""


def say(sentence: str) -> None:
    """Print a sentence for the user on stderr."""
    standard_error.say(f"tfm: {sentence}")


def report(error: OperationError | ValueError) -> int:
    """Print an error, and return the exit code of the command that fails with it."""
    say(str(error))
    return error.exit_code if isinstance(error, OperationError) else 2
