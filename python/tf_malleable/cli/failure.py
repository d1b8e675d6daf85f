# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""What a command could not do, as opposed to what it was asked wrongly."""

from __future__ import annotations

import click


class CommandFailed(click.ClickException):
    """One sentence for stderr; the exit code is 1, where bad input has 2."""

    exit_code = 1
