# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""tfm run --tier: an environment in which programs read through the tier of this node."""

from __future__ import annotations

import os
import secrets
from pathlib import Path
from typing import Final

import click

from tf_malleable.model import OperationError

_VARIABLE: Final = "TF_MALLEABLE_TIER"
_PRELOAD: Final = "LD_PRELOAD"
_COUNTS_BYTES: Final = 64


def join_tier() -> None:
    """Set the environment so that programs started from now on read through the tier.

    Without a tier, print a message; the programs then read the source.

    Raises:
        OperationError: The shim library is not installed.
    """
    # Not from api.tier, which imports msgspec: `tfm run` must start fast.
    from tf_malleable.api.transport.tier_address import (
        SHIM,
        counts_folder,
        default_tier_socket,
        reader_file,
    )

    if not SHIM.exists():
        raise OperationError(f"this tf_malleable was built without {SHIM.name}")
    socket = default_tier_socket()
    try:
        said = reader_file(socket).read_text()
    except OSError as error:
        reason = error.strerror or error
        click.echo(f"tfm: no tier at {socket} ({reason}), reading from the source", err=True)
        return
    os.environ[_VARIABLE] = said + _counts(counts_folder(socket))
    loaded = [each for each in os.environ.get(_PRELOAD, "").replace(":", " ").split() if each]
    os.environ[_PRELOAD] = ":".join(dict.fromkeys([str(SHIM), *loaded]))


def _counts(folder: Path) -> str:
    """Return the line that names the file in which all processes of the job count their reads."""
    # This process becomes the job's main process, with the same pid.
    path = folder / f"{os.getpid()}-{secrets.token_hex(4)}"
    try:
        path.write_bytes(bytes(_COUNTS_BYTES))
    except OSError:  # The daemon is older, or the folder is read-only in this container.
        return ""
    return f"counts={path}\n"
