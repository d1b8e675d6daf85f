# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Rows of the benchmark of elastic training, what it keeps, and small measurements."""

from __future__ import annotations

import dataclasses
import json

import pytest

from benchmarks.common.command_line import BenchmarkError
from benchmarks.common.resuming import earlier
from benchmarks.elastic import accuracy, rescales
from benchmarks.elastic.__main__ import Run, main
from benchmarks.elastic.exchange import measure
from benchmarks.elastic.group import Process, environment
from benchmarks.elastic.rows import rows
from benchmarks.elastic.scaling import COMPARISONS


def sums(seconds: float) -> dict[str, object]:
    sample = {"seconds": [seconds, seconds + 0.2, seconds], "cpu": [0.1, 0.1, 0.1]}
    return {"1000000": sample, "25000000": sample}


def found(samples: dict[str, object], label: str) -> list[object]:
    return [row for row in rows(samples) if label in row.label]


def test_only_our_large_sum_has_a_target():
    made = rows({"unix": [sums(0.7)], "ring": [sums(0.9)]})
    assert [row.verdict for row in made] == ["", "", "passed", "", *[""] * 5]
    assert made[2].found.value == pytest.approx(0.7)
    assert made[-1].label == "one sum, Unix socket / TensorFlow's ring"
    assert made[-1].found.value == pytest.approx(0.7 / 0.9)


def test_few_pauses_are_held_to_the_target_by_the_longest():
    samples = {"pauses-1m": [{"join": [0.01, 0.02], "leave": [0.0], "lost": [1.2]}]}
    usual, percentile, longest, *reasons = rows(samples)
    assert (usual.verdict, percentile.verdict, longest.verdict) == ("passed", "", "missed")
    assert longest.found.value == pytest.approx(1.2)
    assert [row.found.value for row in reasons] == pytest.approx([0.015, 0.0, 1.2])


def test_many_pauses_are_held_to_the_target_by_their_percentile():
    samples = {"pauses-1m": [{"join": [0.01] * 198, "leave": [0.0], "lost": [1.2]}]}
    assert [row.verdict for row in rows(samples)[:3]] == ["passed", "passed", ""]


@pytest.mark.parametrize(
    ("differences", "verdict"),
    [([0.01, -0.01, 0.0], "passed"), ([-0.01, -0.02, -0.01], "missed")],
)
def test_accuracy_may_not_be_lower_beyond_its_interval(differences, verdict):
    pairs = [
        vars(accuracy.Pair(seed, 0.9, 0.9 + each, ("join", "lost"), same_bits=True))
        for seed, each in enumerate(differences)
    ]
    (upper,) = found({"accuracy": pairs}, "upper end")
    assert upper.verdict == verdict
    (elastic,) = found({"accuracy": pairs}, "elastic, mean")
    assert elastic.remark == "3 join, 3 lost"


def test_throughput_is_that_of_two_workers_divided_by_that_of_one():
    turn = {"two": [0.5, 0.8], "one": [0.4, 0.7], "plain": [0.4, 0.7]}
    samples = {"scaling": [{"two": [turn, turn], "plain": [turn, turn]}]}
    held = [row for row in rows(samples) if row.target is not None]
    assert [row.found.value for row in held] == pytest.approx([0.8])
    cpu, *_ = found(samples, "CPU time")
    assert cpu.found.value == pytest.approx(0.8 / 0.7)


def test_only_those_are_started_that_are_compared():
    assert {name: each.ways for name, each in COMPARISONS.items()} == {
        "scaling": ["plain", "one", "two"],
        "servers": ["two", "server", "servers"],
    }


@pytest.mark.parametrize("seed", range(16))
def test_a_schedule_leaves_a_worker_and_needs_no_fifth_shard(seed):
    order = accuracy.schedule(seed)
    assert sorted(order) == sorted(accuracy.CHANGES)
    counts = [2 + sum(1 if each == "join" else -1 for each in order[:n]) for n in range(5)]
    assert min(counts) >= 1
    assert max(counts) <= 3
    assert order == accuracy.schedule(seed)


@pytest.mark.parametrize("text", ["", "a", "3-1", "1-", "-1", "0-99999", "1-2-3"])
def test_wrong_seeds_are_refused(capsys, tmp_path, monkeypatch, text):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SystemExit) as ended:
        main([f"--seeds={text}"])
    assert ended.value.code == 2
    said = "elastic: argument --seeds: must be FIRST-LAST, such as 0-15, from 0 to 10000, not"
    assert capsys.readouterr().err == f"{said} {text!r}\n"
    assert list(tmp_path.iterdir()) == []


def write(path, **changes):
    said = {"command": "python", "date": "today", "seconds": 1, "noise": {}, "calls": []}
    said |= {"commit": "abc", "samples": {"unix": [sums(0.7)]}} | changes
    path.write_text(json.dumps(said))
    return path


def test_samples_of_the_same_commit_are_added_to(tmp_path):
    assert earlier(tmp_path / "results.json", "abc") == ({}, [])
    samples, calls = earlier(write(tmp_path / "results.json"), "abc")
    assert samples == {"unix": [sums(0.7)]}
    assert calls == [{"command": "python", "date": "today", "seconds": 1, "noise": {}}]


@pytest.mark.parametrize("changes", [{"commit": "def"}, {"samples": None}, {"samples": [1]}])
def test_samples_that_do_not_fit_are_refused(tmp_path, changes):
    path = write(tmp_path / "results.json", **changes)
    with pytest.raises(BenchmarkError, match=r"^--resume: .*results\.json"):
        earlier(path, "abc")


def test_seeds_that_are_known_are_not_measured_again(monkeypatch):
    monkeypatch.setattr(
        accuracy, "measure", lambda seed: accuracy.Pair(seed, 0.9, 0.9, (), same_bits=True)
    )
    samples = {"accuracy": [{"seed": 1}]}
    kept = []
    Run(samples, lambda: kept.append(len(samples["accuracy"])), lambda _: None).measure(
        ["accuracy"], 5, range(3)
    )
    assert [each["seed"] for each in samples["accuracy"]] == [1, 0, 2]
    assert kept == [2, 3]


def test_a_process_that_ends_too_early_says_why():
    process = Process(["python3", "-c", "raise SystemExit('out of luck')"], environment())
    assert str(process.problem()) == "a process has ended with 1 too early: out of luck"
    process.end()


@pytest.mark.slow
def test_all_kinds_of_pauses_are_measured():
    bare = ("-m", "benchmarks.elastic.worker", "1000", "0.01")
    program = dataclasses.replace(rescales.PROGRAMS["pauses-1m"], arguments=bare, times=1)
    seconds = rescales.measure(program)
    assert {reason: len(each) for reason, each in seconds.items()} == {
        "join": 3,
        "leave": 1,
        "lost": 1,
    }


@pytest.mark.parametrize("kind", ["unix", "tcp"])
def test_both_processes_sum(kind):
    made = measure(kind, 10_000, 3)
    assert len(made.seconds) == len(made.cpu) == 3
    assert all(each > 0 for each in made.seconds)
