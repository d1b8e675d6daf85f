# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Checkpoint options: where a training saves its state, for when all its workers are gone."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, Final, TypeVar

import click

from tf_malleable.elastic.settings import CHECKPOINT_SECONDS, MeshSettings
from tf_malleable.elastic.state import checkpoint

_MOST_SECONDS: Final = 1e6
_Function = TypeVar("_Function", bound=Callable[..., Any])


def options(function: _Function) -> _Function:
    """Add --checkpoint and --checkpoint-every to a command."""
    folder = click.option(
        "--checkpoint",
        metavar="FOLDER",
        help="Keep the state here, and go on from it if nobody has it any more; a folder for this"
        " training alone, that all its workers can reach.",
    )
    every = click.option(
        "--checkpoint-every",
        type=float,
        metavar="SECONDS",
        help=f"How often at most, besides ends of epochs.  [default: {CHECKPOINT_SECONDS:g}]",
    )
    return folder(every(function))


def check(folder: str | None, seconds: float | None) -> None:
    """Raise ValueError if an option's value is not allowed."""
    if seconds is not None and folder is None:
        raise ValueError("--checkpoint-every says how often: give --checkpoint, which says where")
    if folder == "":
        raise ValueError("--checkpoint must be a folder")
    if seconds is not None and not 0 < seconds <= _MOST_SECONDS:
        raise ValueError(
            f"--checkpoint-every must be a positive number of seconds, not {seconds:g}"
        )


def as_options(folder: str | None, seconds: float | None) -> tuple[str, ...]:
    """Return the equivalent command-line options."""
    said = {"--checkpoint": folder, "--checkpoint-every": seconds}
    return tuple(f"{name}={value}" for name, value in said.items() if value is not None)


def with_checkpoint(settings: MeshSettings) -> MeshSettings:
    """Return settings whose checkpoint folder is absolute, wherever the script runs.

    The seed is that of the training saved there, unless the settings have one.
    """
    if not settings.checkpoint:
        return settings
    folder = os.path.abspath(settings.checkpoint)
    seed = checkpoint.seed_in(Path(folder)) if settings.seed is None else settings.seed
    return replace(settings, checkpoint=folder, seed=seed)
