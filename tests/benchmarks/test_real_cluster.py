# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Rows of the benchmark on a real cluster, and its measures on the fake one."""

from __future__ import annotations

import json

import pytest

from benchmarks.real_cluster.__main__ import main
from benchmarks.real_cluster.names import MEASURES
from benchmarks.real_cluster.rows import rows


def verdicts(**samples):
    """Return the verdicts of the rows that have a bar."""
    made = rows({name.replace("_", "-"): found for name, found in samples.items()})
    return [row.verdict for row in made if row.target is not None]


def test_only_our_own_part_of_a_workers_way_is_judged():
    slow = {"created": 2.0, "runs": 8.0, "registered": 60.0, "trains": 60.9}
    assert verdicts(room=[slow]) == ["passed"]
    assert verdicts(room=[slow, {**slow, "created": 2.2}]) == ["missed"]


@pytest.mark.parametrize(
    ("samples", "expected"),
    [
        ({"worker_killed": [{"generation": 0.9, "pause": None}]}, ["passed"]),
        ({"worker_killed": [{"generation": 1.1, "pause": 0.9}]}, ["missed"] * 2),
        ({"term": {"ends": [{"gone": 4.0}, {"gone": 30.7}], "lost": False}}, ["missed", "passed"]),
        ({"refused": {"seconds": 10, "at_first": 50, "calls": 20}}, ["passed"]),
        ({"operator_leads": [12.0, 15.2]}, ["missed"]),
    ],
)
def test_the_worst_is_judged(samples, expected):
    assert verdicts(**samples) == expected


def test_a_pod_that_ended_or_a_worker_that_is_another_one_is_a_fault():
    good = {"seconds": 0.3, "phase": "Running", "same": True, "changes": 1}
    assert verdicts(way=[good]) == ["passed", "passed"]
    assert verdicts(way=[good, {**good, "phase": "Failed"}]) == ["passed", "missed"]
    assert verdicts(way=[good, {**good, "same": False}]) == ["passed", "missed"]
    assert verdicts(way=[good, {**good, "changes": 3}]) == ["missed", "passed"]


def test_each_training_must_end_once_and_leave_a_log():
    good = {"succeeded": True, "twice": False, "logs": 2}
    bad = ({"twice": True}, {"succeeded": False}, {"logs": 0})
    for at, fault in enumerate(bad):
        found = verdicts(operator_killed={"length": 9.0, "runs": [good, {**good, **fault}]})
        assert found == ["missed" if number == at else "passed" for number in range(3)]


def test_the_ideal_is_two_workers_from_a_third_on():
    times = {"static-1": 120.0, "static-2": 60.0, "room": 40.0, "joined": 44.0}
    (share, *_) = rows({"growth": {**times, "grows": 84.0}})
    assert (share.found.value, share.verdict) == (pytest.approx(90.0), "passed")
    assert verdicts(growth={**times, "grows": 88.0}) == ["missed"]


def test_a_cluster_without_an_image_is_refused_in_a_sentence(tmp_path, monkeypatch, capsys):
    monkeypatch.delenv("TFM_TEST_IMAGE", raising=False)
    monkeypatch.setenv("KMP_DUPLICATE_LIB_OK", "True")  # As scikit-learn's import does.
    assert main(["--only", "way", "--out", str(tmp_path)]) == 1
    assert "TFM_TEST_IMAGE names no image" in capsys.readouterr().out
    found = json.loads((tmp_path / "results.json").read_text())
    assert list(found["problems"]) == ["way"]
    assert set(found["problems"]) <= set(MEASURES)


@pytest.mark.slow
def test_workers_are_killed_and_make_way_on_the_fake(tmp_path):
    words = ["--fake", "--times", "1", "--rounds", "2", "--out", str(tmp_path)]
    assert main([*words, "--only", "worker-killed", "way"]) == 0
    found = json.loads((tmp_path / "results.json").read_text())["samples"]
    assert len(found["worker-killed"]) == 1
    assert [(one["phase"], one["same"]) for one in found["way"]] == [("Running", True)] * 2
