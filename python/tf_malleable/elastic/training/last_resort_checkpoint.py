# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Last resort: what remains of a training once no process has its state in memory."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from tf_malleable.elastic.training.position import Place


def save(callbacks: Iterable[Any], position: Place | None, kept: str = "") -> str:
    """Save the state of a fit() whose last worker leaves; return a sentence about what is kept.

    A BackupAndRestore that saves within epochs does so now. One that saves after each epoch has
    done so already: beginning an epoch again with weights from its middle would train on its
    first batches twice.

    Args:
        callbacks: Keras's callbacks of this fit().
        position: Position of the fit(); None if this process has no state.
        kept: File that has the state; empty if there is none.
    """
    callback = _backup_of(callbacks)
    if kept and position is not None:
        return f"no worker is left: {kept} has the state of {_at(position)}"
    if callback is None or position is None:
        return (
            "no worker is left, and no BackupAndRestore has kept the state: what this training has"
            " learned is lost, unless the script has saved it itself"
        )
    if callback.save_freq != "epoch":
        callback._save_model()
        return f"no worker is left: BackupAndRestore has kept the state of {_at(position)}"
    epochs = callback._current_epoch
    if not epochs:
        return (
            "no worker is left, and BackupAndRestore keeps the state after each epoch, of which"
            " none has ended: what this training has learned is lost"
        )
    return (
        f"no worker is left: what goes on later goes on after epoch {epochs}, whose state"
        " BackupAndRestore has kept"
    )


def _at(position: Place) -> str:
    at = "its end" if position.is_over else f"batch {position.batch}"
    return f"epoch {position.epoch + 1}, {at}"


def _backup_of(callbacks: Iterable[Any]) -> Any:
    from keras.callbacks import BackupAndRestore

    return next((each for each in callbacks if isinstance(each, BackupAndRestore)), None)
