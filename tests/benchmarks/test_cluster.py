# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Rows of the benchmark of the operator, and its cluster as a program."""

from __future__ import annotations

import pytest

from benchmarks.cluster import picture
from benchmarks.cluster.rows import rows
from benchmarks.cluster.site import site
from benchmarks.cluster.trained import told
from tf_malleable.cluster import resource_names


def training(seconds: float, **more: object) -> dict[str, object]:
    epochs = [100.0 + seconds * part for part in (0.25, 0.5, 1.0)]
    end = {"accuracy": 0.96, "weights": ["abc"], "cpu_seconds": 2 * seconds}
    begin = {"submitted": 90.0, "begin": 100.0, "end": 100.0 + seconds, "epochs": epochs}
    return begin | end | more


def grown(seconds: float, **more: object) -> dict[str, list[object]]:
    moments = {"uncordoned": 140.0, "joined": 148.0}
    grows = training(seconds, **{**moments, **more})
    return {"static-1": [training(120.0)], "static-2": [training(60.0)], "grows": [grows]}


def found(samples: dict[str, object], label: str) -> object:
    (row,) = [row for row in rows(samples) if label in row.label]
    return row


@pytest.mark.parametrize(
    ("seconds", "share", "verdict"), [(80.0, 100.0, "passed"), (84.0, 90.0, "passed")]
)
def test_the_ideal_is_two_workers_from_the_moment_that_there_is_room(seconds, share, verdict):
    row = found(grown(seconds), "of the ideal gain")
    assert row.found.value == pytest.approx(share)
    assert row.verdict == verdict


def test_a_training_as_slow_as_with_one_worker_has_gained_nothing():
    row = found(grown(120.0), "of the ideal gain")
    assert (row.found.value, row.verdict) == (0.0, "missed")


def test_the_start_of_the_second_worker_is_not_counted_where_it_is_left_out():
    assert found(grown(84.0), "from when the second").found.value == pytest.approx(100.0)
    assert found(grown(84.0), "from room to").found.value == pytest.approx(8.0)


@pytest.mark.slow
def test_other_weights_are_told():
    assert found(grown(80.0), "different weights").verdict == "passed"
    assert found(grown(80.0, weights=["def"]), "different weights").verdict == "missed"


def test_changes_of_cpus_are_held_to_the_99th_percentile():
    made = rows({"vertical": [[0.2] * 99 + [3.0]]})
    assert [row.verdict for row in made] == ["", "passed", ""]
    assert rows({"vertical": [[0.2, 1.4]]})[1].verdict == "missed"


def test_a_death_counts_from_what_its_training_hears_of_it():
    moments = {"not_ready": 0.4, "generation": 2.2, "replaced": 1.0, "whole": 9.0}
    deaths = [{"kind": kind, **moments} for kind in ("killed", "coordinator")]
    made = {row.label: row for row in rows({"deaths": [deaths]}) if row.target}
    killed = made["1 of a killed node: from the death to a generation, the longest"]
    leading = made["1 of the coordinator's: from NotReady to a generation, the longest"]
    assert (killed.verdict, leading.verdict) == ("missed", "passed")
    assert leading.found.value == pytest.approx(1.8)


def jobs(end: float, cpu_seconds: float) -> dict[str, object]:
    first = {"submitted": 0.0, "begin": 5.0, "end": 30.0, "epochs": [20.0, 30.0]}
    return {
        "jobs": {"short": first, "long": {**first, "submitted": 1.0, "end": end}},
        "cpu_seconds": cpu_seconds,
    }


def test_jobs_are_compared_by_makespan_and_by_the_cores_they_use():
    samples = {"split": [jobs(100.0, 130.0)], "operator": [jobs(70.0, 126.0)]}
    assert found(samples, "makespan, operator / split").found.value == pytest.approx(0.7)
    share = found(samples, "share of core time used, operator / split")
    assert share.found.value == pytest.approx(0.9 / 0.65)
    assert share.verdict == "passed"


def test_a_run_of_kills_that_fails_is_a_row_that_misses():
    run = {"kills": 100, "passed": True, "seconds": 200.0}
    assert [row.verdict for row in rows({"kills": [run, {**run, "passed": False}]})] == [
        "passed",
        "missed",
    ]


def test_what_all_processes_noted_is_told_as_of_one():
    first = [("begin", 1.0, {}), ("epoch", 5.0, {"number": 0})]
    second = [("begin", 4.0, {}), ("epoch", 5.1, {"number": 0}), ("epoch", 8.0, {"number": 1})]
    second += [("trained", 8.1, {}), ("end", 9.0, {"accuracy": 0.9, "weights": "abc"})]
    notes = [[{"what": w, "at": at, **more} for w, at, more in one] for one in (first, second)]
    assert told(notes) == {
        "begin": 1.0,
        "end": 8.1,
        "epochs": [5.0, 8.0],
        "accuracy": 0.9,
        "weights": ["abc"],
        "processes": 2,
    }


def test_a_picture_is_drawn_only_of_ways_that_can_be_compared(tmp_path):
    picture.draw({"static-1": [training(120.0)]}, tmp_path / "none.png")
    every = {way: [jobs(70.0, 126.0)] for way in ("split", "queue", "operator")}
    picture.draw(grown(84.0) | every, tmp_path / "some.png")
    assert [path.name for path in tmp_path.iterdir()] == ["some.png"]


@pytest.mark.slow
def test_the_cluster_is_a_program_that_trains_and_whose_nodes_die():
    words = ("-m", "benchmarks.elastic.worker", "10", "0.01")
    with site() as here:
        for node in ("a", "b"):
            here.tell("add_node", name=node, cpus=1.5, cordoned=node == "b")
        here.submit("t", words, (1, 1))
        here.wait(lambda: here.settled("t", 1))
        here.tell("uncordon", name="b")
        here.tell("freeze_node", name="a")
        (before,) = here.api.pods("t", resource_names.WORKER)[:1]

        def moved() -> bool:
            return any(
                p["spec"].get("nodeName") == "b" for p in here.api.pods("t", resource_names.WORKER)
            )

        here.wait(moved)
        assert before["spec"]["nodeName"] == "a"
        here.wait(lambda: here.settled("t", 1))
        here.tell("restart_node", name="a")
        assert here.tell("cpu_seconds") > 0
