# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Callbacks decide the same in each member, and write in the lead only."""

from __future__ import annotations

import csv
import json

import pytest

from tests.support.elastic import SCRIPT, alone, differences, plain, together
from tests.support.fake_mesh import Plan

SCRIPT = SCRIPT.with_name("callbacks.py")
# Four steps and the end of an epoch are five steps of the mesh.
LEAD_LEAVES = Plan({0: ["a"], 7: ["a", "b"], 17: ["b"]})

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900), pytest.mark.xdist_group("callbacks")]


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory):
    """A training without others, and its files."""
    folder = tmp_path_factory.mktemp("one")
    ended = alone([str(folder), "-1", "-"], folder / "one.npz", SCRIPT, shards=2)
    assert ended.code == 0, ended.said
    (folder / "one.npz").unlink()
    return ended.values, folder


def weights(values):
    """Return the state by the number of each variable; a loaded model names them otherwise."""
    return {name.split()[0]: value for name, value in values.items() if name != "told"}


def test_a_late_member_takes_over_from_the_lead(undisturbed, tmp_path):
    values, folder = undisturbed
    two = tmp_path / "two"
    two.mkdir()
    ended = together(LEAD_LEAVES, [str(two), "-1", "-"], tmp_path, SCRIPT, shards=2)
    assert ended["b"].code == 0, ended["b"].said
    # Weights, and what a callback of a member that came late was told of all epochs.
    assert differences(values, ended["b"].values) == []
    written = [sorted(path.name for path in each.iterdir()) for each in (folder, two)]
    assert written[0] == written[1]
    assert {"1.keras", "6.keras", "board", "end.keras", "log.csv"} <= set(written[1])
    assert _rows(folder / "log.csv") == _rows(two / "log.csv")
    board = _board(folder / "board")
    assert [step for step, _ in board["train"]] == list(range(6))
    assert _board(two / "board") == board


def test_a_training_goes_on_from_its_backup_with_the_same_bits(undisturbed, tmp_path):
    failed = alone([str(tmp_path), "3", "-"], tmp_path / "none.npz", SCRIPT, shards=2)
    assert failed.code == 9, failed.said
    again = alone([str(tmp_path), "-1", "-"], tmp_path / "again.npz", SCRIPT, shards=2)
    assert again.code == 0, again.said
    assert again.values["told"][:, 0].tolist() == [3, 4, 5]
    assert differences(weights(undisturbed[0]), weights(again.values)) == []


def test_a_script_goes_on_from_its_checkpoint_with_the_same_bits(undisturbed, tmp_path):
    values, folder = undisturbed
    (tmp_path / "4.keras").write_bytes((folder / "4.keras").read_bytes())
    again = alone([str(tmp_path), "-1", "4"], tmp_path / "again.npz", SCRIPT, shards=2)
    assert again.code == 0, again.said
    assert again.values["told"][:, 0].tolist() == [4, 5]
    assert differences(weights(values), weights(again.values)) == []


def _rows(path):
    with path.open() as file:
        return list(csv.DictReader(file))


def _board(folder):
    told = plain([str(folder)], folder / "none", script=SCRIPT.with_name("boards.py"))
    return json.loads(told.said.splitlines()[-1])
