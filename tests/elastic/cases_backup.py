# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""What is kept, and said, when the last worker goes. Run by test_with_tensorflow.py."""

from __future__ import annotations

from keras.callbacks import BackupAndRestore, History

from tf_malleable.elastic.training import last_resort_checkpoint
from tf_malleable.elastic.training.position import Place

PLACE = Place(0, 2, False, 7)


class Model:
    """Knows what is asked of it."""

    def __init__(self):
        self.saved = []

    def save_weights(self, filepath, overwrite):
        assert overwrite
        self.saved.append(str(filepath))


def kept(tmp_path, place=PLACE, epoch=0, **options):
    """Return what is said, and what was saved, with a BackupAndRestore if there are options."""
    callbacks, model = [History()], Model()
    if options:
        callbacks.append(BackupAndRestore(tmp_path / "backup", **options))
        callbacks[1].set_model(model)
        callbacks[1]._current_epoch = epoch
    return last_resort_checkpoint.save(callbacks, place), model.saved


def test_a_backup_within_epochs_is_made_now(tmp_path):
    said, saved = kept(tmp_path, save_freq=100, epoch=2)
    assert said == "no worker is left: BackupAndRestore has kept the state of epoch 3, batch 7"
    assert saved == [str(tmp_path / "backup" / "latest.weights.h5")]
    assert (tmp_path / "backup" / "training_metadata.json").exists()


def test_a_backup_after_each_epoch_is_left_as_it_is(tmp_path):
    said, saved = kept(tmp_path, save_freq="epoch", epoch=2)
    assert said.startswith("no worker is left: what goes on later goes on after epoch 2")
    assert not saved
    said, saved = kept(tmp_path, save_freq="epoch")
    assert said.endswith("of which none has ended: what this training has learned is lost")
    assert not saved


def test_without_a_backup_it_is_said_that_all_is_lost(tmp_path):
    said, _ = kept(tmp_path)
    assert "what this training has learned is lost, unless the script has saved it" in said
    said, saved = kept(tmp_path, None, save_freq=100)
    assert "what this training has learned is lost" in said
    assert not saved
