# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Whole trainings by tfm elastic local: Keras processes that come and go change no bit."""

from __future__ import annotations

import os
import re
import signal
import sys

import numpy as np
import pytest

from tests.support.commands import tfm
from tests.support.elastic import differences
from tests.support.elastic_local import EPOCHS, SCRIPT, STEPS, LocalTraining

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900), pytest.mark.xdist_group("join")]


def trained(values):
    """Return what must be the same in all processes."""
    return {name: value for name, value in values.items() if name not in ("batches", "epochs")}


def weights(values):
    """Return the state, without what happened on the way to it."""
    return {name: value for name, value in trained(values).items() if not name.startswith("log ")}


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory):
    with LocalTraining(tmp_path_factory.mktemp("one")) as training:
        (values,) = training.finish().values()
        return values


def check(undisturbed, ended):
    """All came to the same end, and trained on no batch twice."""
    for values in ended.values():
        assert differences(trained(undisturbed), trained(values)) == []
        # A newcomer's callbacks may see one batch begin that it then passes over.
        _, *batches = values["batches"].tolist()
        assert batches == list(range(batches[0], EPOCHS * STEPS))
        assert values["epochs"].tolist() == list(range(EPOCHS))


def test_one_worker_trains_on_each_batch(undisturbed):
    check(undisturbed, {0: undisturbed})
    assert undisturbed["batches"][0] == 0


def test_two_workers_end_with_the_bits_of_one(undisturbed, tmp_path):
    with LocalTraining(tmp_path, "--workers", "2") as training:
        both = training.lead_to(2)
        ended = training.finish()
        assert sorted(ended) == sorted(both)
        check(undisturbed, ended)
        assert min(values["batches"][0] for values in ended.values()) == 0
        assert max(values["batches"][0] for values in ended.values()) > 0  # The late one.


def test_a_worker_without_coordinator_ends_with_the_same_bits(undisturbed, tmp_path):
    (tmp_path / "files").mkdir()
    (tmp_path / "quota").write_text(str(EPOCHS * STEPS))
    script = [sys.executable, str(SCRIPT), str(tmp_path), str(EPOCHS)]
    result = tfm("elastic", "run", "--seed", "1", "--", *script)
    assert result.returncode == 0, result.stderr
    (path,) = tmp_path.glob("*.npz")
    check(undisturbed, {0: dict(np.load(path))})


def test_workers_that_come_leave_and_are_killed_change_no_bit(undisturbed, tmp_path):
    with LocalTraining(tmp_path, "--workers", "1:3", "--no-replace") as training:
        training.lead_to(1)
        training.set(3)
        first, second, third = training.lead_to(3)
        os.kill(first, signal.SIGTERM)  # The lead, which hands over and leaves.
        training.lead_to(2)
        os.kill(third, signal.SIGKILL)
        training.lead_to(1)
        ended = training.finish()
        assert list(ended) == [second]
        check(undisturbed, ended)
        reasons = [each["reason"] for each in training.rescales]
        assert reasons[0] == "start"
        assert {"join", "leave", "lost"} <= set(reasons)


def test_only_the_lead_writes_files_and_each_row_once(undisturbed, tmp_path):
    with LocalTraining(tmp_path, "--workers", "1:2") as training:
        (lead,) = training.lead_to(1)
        training.set(2)
        training.lead_to(2)
        os.kill(lead, signal.SIGKILL)  # Another one comes in its place.
        training.lead_to(2, without=lead)
        check(undisturbed, training.finish())
        rows = (tmp_path / "files" / "log.csv").read_text().splitlines()
        assert [row.split(",")[0] for row in rows] == ["epoch", *map(str, range(EPOCHS))]
        names = {path.name for path in (tmp_path / "files").iterdir()}
        assert names == {"log.csv", "end.keras", *(f"{n}.keras" for n in range(1, EPOCHS + 1))}


def test_all_are_killed_and_the_end_of_an_epoch_brings_the_same_bits(undisturbed, tmp_path):
    kept = tmp_path / "kept"
    with LocalTraining(tmp_path, f"--checkpoint={kept}", "--checkpoint-every=3600") as training:
        training.lead_to(1)
        (only,) = training.train_to(2 * STEPS + 5)
        os.kill(only, signal.SIGKILL)
        ended = training.finish()
        (line,) = [each for each in training.said().splitlines() if "goes on from" in each]
    # Each epoch has a step for its end. It is an earlier one where writing takes long.
    assert int(re.findall(r"step-(\d+)\.checkpoint$", line)[0]) in (0, STEPS, 2 * STEPS + 1)
    check(undisturbed, ended)


def test_the_last_worker_keeps_its_batch_and_the_same_command_goes_on(undisturbed, tmp_path):
    options = f"--checkpoint={tmp_path / 'kept'}", "--checkpoint-every=3600"
    with LocalTraining(tmp_path / "one", *options) as training:
        training.lead_to(1)
        training.train_to(STEPS + 3)
        training.process.terminate()
        assert training.let_it_go() == 143
        sentence = r"no worker is left: \S+ has the state of epoch 2, batch (\d+)"
        (batch,) = map(int, re.findall(sentence, training.said()))
    with LocalTraining(tmp_path / "two", *options) as training:
        ended = training.finish()
    check(undisturbed, ended)
    # A callback may see one batch begin that is passed over.
    (values,) = ended.values()
    assert STEPS + batch in values["batches"].tolist()[:2]


def test_all_that_had_the_state_are_gone_and_the_backup_brings_the_same_bits(undisturbed, tmp_path):
    with LocalTraining(tmp_path) as training:
        training.lead_to(1)
        (only,) = training.train_to(STEPS + 3)
        os.kill(only, signal.SIGKILL)
        (values,) = training.finish().values()
        assert "all processes that had the state of the training are gone" in training.said()
    # It saw the second epoch begin again, and nothing of the first one.
    assert values["batches"].tolist() == list(range(STEPS, EPOCHS * STEPS))
    assert differences(weights(undisturbed), weights(values)) == []
