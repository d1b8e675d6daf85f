# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Callbacks decide the same in each member, and write in the lead only."""

from __future__ import annotations

import csv

import pytest

from tests.support.elastic import SCRIPT, alone, differences, together
from tests.support.fake_mesh import Plan

SCRIPT = SCRIPT.with_name("callbacks.py")
# Four steps and the end of an epoch are five steps of the mesh.
LEAD_LEAVES = Plan({0: ["a"], 7: ["a", "b"], 17: ["b"]})


@pytest.mark.slow
def test_a_late_member_takes_over_from_the_lead(tmp_path):
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
    one = alone([str(tmp_path / "one"), "-1"], tmp_path / "one.npz", SCRIPT, shards=2)
    assert one.code == 0, one.said
    two = together(LEAD_LEAVES, [str(tmp_path / "two"), "-1"], tmp_path, SCRIPT, shards=2)
    assert two["b"].code == 0, two["b"].said
    # Weights, and what a callback of a member that came late was told of all epochs.
    assert differences(one.values, two["b"].values) == []
    written = {
        folder: sorted(path.name for path in (tmp_path / folder).iterdir())
        for folder in ("one", "two")
    }
    assert written["one"] == written["two"]
    assert {"1.keras", "6.keras", "end.keras", "log.csv"} <= set(written["two"])
    assert _rows(tmp_path / "one" / "log.csv") == _rows(tmp_path / "two" / "log.csv")


@pytest.mark.slow
def test_a_backup_continues_at_its_epoch(tmp_path):
    folder = tmp_path / "files"
    folder.mkdir()
    failed = alone([str(folder), "3"], tmp_path / "none.npz", SCRIPT, shards=2)
    assert failed.code == 9, failed.said
    again = alone([str(folder), "-1"], tmp_path / "again.npz", SCRIPT, shards=2)
    assert again.code == 0, again.said
    assert again.values["told"][:, 0].tolist() == [3, 4, 5]


def _rows(path):
    with path.open() as file:
        return list(csv.DictReader(file))
