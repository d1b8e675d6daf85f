# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Hooks that let only the lead write files.

Callbacks run in all members, as their decisions must be the same; what they write must be
written once.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from keras.src.callbacks.backup_and_restore import BackupAndRestore
from keras.src.callbacks.csv_logger import CSVLogger
from keras.src.callbacks.tensorboard import TensorBoard
from keras.src.models.model import Model

from tf_malleable.elastic.training.training import Training

Original = Callable[..., Any]
_IS_ON: Final = "_tf_malleable_is_on"


def _in_lead(training: Training, original: Original, owner: Any, *args: Any, **named: Any) -> Any:
    return original(owner, *args, **named) if training.is_lead else None


def _not_in_newcomer(
    training: Training,
    original: Original,
    owner: Any,
    *args: Any,
    **named: Any,
) -> Any:
    """Restore a backup, unless the state comes from other members."""
    return original(owner, *args, **named) if training.target is None else None


def _open(training: Training, original: Original, owner: Any, *args: Any, **named: Any) -> None:
    """Begin to write if this is the lead."""
    vars(owner)[_IS_ON] = training.is_lead
    if training.is_lead:
        original(owner, *args, **named)


def _append_row(
    training: Training, original: Original, owner: Any, *args: Any, **named: Any
) -> None:
    """Write a row; first open the file if the member that wrote it is gone."""
    if not training.is_lead:
        return
    if not vars(owner)[_IS_ON]:
        vars(owner)[_IS_ON] = owner.append = True
        _BEGIN_CSV(owner)
    original(owner, *args, **named)


def _begin_epoch(
    training: Training, original: Original, owner: Any, *args: Any, **named: Any
) -> None:
    """Begin an epoch; first the training, if the member that wrote it is gone."""
    if training.is_lead and not vars(owner)[_IS_ON]:
        vars(owner)[_IS_ON] = True
        _BEGIN_BOARD(owner)
    if vars(owner)[_IS_ON]:
        original(owner, *args, **named)


def _end_epoch(
    training: Training, original: Original, owner: Any, epoch: int, *args: Any, **named: Any
) -> None:
    """Write an epoch's logs, also if the member that saw its beginning is gone."""
    if training.is_lead and not vars(owner)[_IS_ON]:
        owner.on_epoch_begin(epoch)
    if vars(owner)[_IS_ON]:
        original(owner, epoch, *args, **named)
        # If a lead is killed, the next one writes what follows, and nothing again.
        for writer in owner._writers.values():
            writer.flush()


def _while_on(training: Training, original: Original, owner: Any, *args: Any, **named: Any) -> None:
    if vars(owner).get(_IS_ON, True):
        original(owner, *args, **named)


_BEGIN_CSV: Final = CSVLogger.on_train_begin
_BEGIN_BOARD: Final = TensorBoard.on_train_begin
_OF_BOARD: Final = (
    "on_test_begin",
    "on_test_end",
    "on_test_batch_begin",
    "on_train_batch_begin",
    "on_train_batch_end",
    "on_train_end",
)

HOOKS: Final[tuple[tuple[type, str, Callable[..., Any]], ...]] = (
    (Model, "save", _in_lead),
    (Model, "save_weights", _in_lead),
    (Model, "export", _in_lead),
    (BackupAndRestore, "on_train_begin", _not_in_newcomer),
    (BackupAndRestore, "_save_model", _in_lead),
    (BackupAndRestore, "on_train_end", _in_lead),
    (CSVLogger, "on_train_begin", _open),
    (CSVLogger, "on_epoch_end", _append_row),
    (TensorBoard, "on_train_begin", _open),
    (TensorBoard, "on_epoch_begin", _begin_epoch),
    (TensorBoard, "on_epoch_end", _end_epoch),
    *((TensorBoard, name, _while_on) for name in _OF_BOARD),
)
