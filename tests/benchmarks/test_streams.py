# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""How policies are compared on streams of random jobs."""

from __future__ import annotations

import json
import math
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from dataclasses import fields

import pytest

from benchmarks.common.estimates import geometric_ratio
from benchmarks.streams import sensitivity
from benchmarks.streams.__main__ import main
from benchmarks.streams.cells import Cell, cells, drawn, grid, traces
from benchmarks.streams.decomposition import SWITCHES, chosen, switched
from benchmarks.streams.decomposition import table as decomposition
from benchmarks.streams.ratios import (
    Fared,
    against_best,
    by_cell,
    compare,
    means,
    summary,
    table,
)
from benchmarks.streams.sensitivity import VALUES, points
from benchmarks.streams.simulated import alone, bound, reference, simulated
from tf_malleable.model import Shape
from tf_malleable.policies.queues.srpt import USUAL
from tf_malleable.simulate.engine.curves import amdahl
from tf_malleable.simulate.engine.task import Task


def fared(turnaround: float) -> Fared:
    return Fared(turnaround, 100.0, 2.0)


def test_there_are_90_cells_of_a_grid_60_that_were_drawn_and_16_of_traces():
    assert len(list(grid())) == 90
    assert len(list(traces())) == 16
    assert len(cells()) == 166
    kinds = Counter(name.split(": ")[1].split(",")[0] for name in list(cells())[90:150])
    assert len(kinds) == 8
    assert min(kinds.values()) >= 7


def test_a_policy_is_compared_with_the_best_of_each_cell():
    runs = {
        "one": {
            "ours": {1: fared(9.0), 2: fared(9.0)},
            "equal": {1: fared(10.0), 2: fared(10.0)},
            "other": {1: fared(20.0), 2: fared(2.0)},
        },
        "two": {"ours": {1: fared(9.0)}, "equal": {1: fared(8.0)}, "other": {1: fared(12.0)}},
        "lacking": {"ours": {1: fared(9.0)}, "equal": {1: fared(8.0)}},
    }
    found = against_best(runs, "ours", ["ours", "equal", "other"])
    # The other one has 20 and 2 s: in the geometric mean 6.3, less than 9 and 10.
    assert found["one"]["turnaround"].value == pytest.approx(9.0 / math.sqrt(40.0))
    assert found["two"]["turnaround"].value == pytest.approx(9.0 / 8.0)
    assert "lacking" not in found
    assert (
        summary({"the best": found}).splitlines()[2].startswith("| the best | 2 | 1.265 | 1.423 ")
    )
    columns = [("the best", "turnaround"), ("the best", "slowdown"), ("none", "makespan")]
    lines = by_cell({"the best": found, "none": {"two": found["two"]}}, columns).splitlines()
    assert lines[0] == "| setting | turnaround / the best | slowdown / the best | makespan / none |"
    assert lines[2].startswith("| one | 1.423 [")
    assert lines[2].endswith("] | 1.000 | – |")
    assert lines[3] == "| two | 1.125 [1.125, 1.125] | 1.000 | 1.000 |"


@pytest.mark.parametrize("seed", range(100, 116))
def test_every_drawn_cell_makes_a_stream_and_is_the_same_each_time(seed):
    cell = drawn(seed, jobs=20)
    tasks = cell.tasks(3)
    assert len(tasks) == 20
    assert cell == drawn(seed, jobs=20)
    assert tasks == drawn(seed, jobs=20).tasks(3)
    assert all(task.shape.max <= cell.cores for task in tasks)


def test_ratios_are_paired_by_the_stream():
    # Streams differ by a factor of ten, and the policies by 10 % in each.
    ratio = geometric_ratio([9.0, 90.0, 900.0], [10.0, 100.0, 1000.0])
    assert (ratio.value, ratio.low, ratio.high) == pytest.approx((0.9, 0.9, 0.9))
    mixed = geometric_ratio([8.0, 12.5], [10.0, 10.0])
    assert mixed.value == pytest.approx(1.0)
    assert mixed.low < 0.9 < 1.1 < mixed.high


def test_only_seeds_of_both_policies_count():
    runs = {"cell": {"equal": {1: fared(10.0)}, "ours": {1: fared(8.0), 2: fared(99.0)}}}
    found = compare(runs, "equal")
    assert found["cell"]["ours"]["turnaround"].value == pytest.approx(0.8)
    assert means(found, "ours")["turnaround"] == pytest.approx(0.8)
    assert table(runs, "equal").splitlines()[2].startswith("| cell | 0.800 ")


ONE_BY_ONE = [Task(str(n), 0.0, seconds, shape=Shape(1, 2, 2)) for n, seconds in enumerate((4, 2))]


def test_linear_jobs_one_after_the_other_reach_the_bound():
    # The short one ends after 1 s on two cores, the long one after 3 s.
    assert bound(ONE_BY_ONE, 2) == pytest.approx(2.0)
    task = Task("amdahl", 0.0, 10.0, amdahl(0.5), Shape(1, 2, 2), starting=1.0)
    assert alone(task, 8) == pytest.approx(1.0 + 10.0 / (2 / 1.5))
    assert bound([task], 8) == pytest.approx(8.5)


def test_the_bound_lets_a_shorter_job_overtake():
    tasks = [Task("long", 0.0, 10.0), Task("short", 4.0, 1.0)]
    assert bound(tasks, 1) == pytest.approx((11.0 + 1.0) / 2)


@pytest.mark.parametrize("policy", ["equal", "srpt", "fcfs-strict"])
@pytest.mark.parametrize("seed", [1, 2])
def test_no_policy_beats_the_bound(policy, seed):
    cell = Cell("small", "jobs=30,load=0.9,max-cores=4,curves=amdahl:0.1", 4)
    assert simulated(policy, cell, seed).turnaround >= bound(cell.tasks(seed), 4)


def test_the_reference_is_between_the_bound_and_the_policies():
    cell = Cell("small", "jobs=40,load=0.9,max-cores=4,curves=amdahl:0.1", 4)
    found = reference(cell, 1).turnaround
    assert bound(cell.tasks(1), 4) <= found <= 1.01 * simulated("srpt", cell, 1).turnaround


SMALL = ["--cells", "16 cores, 0.3 serial, max 4, exponential, load 0.5", "--workers", "1"]


@pytest.mark.slow
def test_a_campaign_goes_on_where_it_ended(tmp_path, capsys):
    said = [*SMALL, "--policies", "bound", "--out", str(tmp_path)]
    assert main([*said, "--seeds", "1"]) == 0
    assert "2 of 2" in capsys.readouterr().out
    # As a kill leaves it: the last line is cut off.
    lines = (tmp_path / "runs.jsonl").read_text()
    (tmp_path / "runs.jsonl").write_text(lines[:-9])
    assert main([*said, "--seeds", "1", "--json"]) == 0
    (ratios,) = json.loads(capsys.readouterr().out)["cells"].values()
    assert 0.3 < ratios["bound"]["turnaround"]["value"] < 1.0
    assert ratios["equal"]["makespan"]["value"] == 1.0
    assert (tmp_path / "results.png").stat().st_size > 1000
    # What is no policy has as many seeds as it was asked for.
    assert main([*said, "--seeds", "1-3", "--known-seeds", "2"]) == 0
    assert "3 of 3" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--seeds", "many"], "--seeds: must be seeds such as 1-20 or 3,5,9, not 'many'"),
        (["--cells", "none"], "--cells: no cell is called none; see --list"),
        (["--policies", "best"], "there is no policy 'best'"),
    ],
)
def test_what_cannot_be_run_is_refused(arguments, said, capsys):
    with pytest.raises(SystemExit) as ended:
        main(arguments)
    assert ended.value.code == 2
    assert said in capsys.readouterr().err


def test_intervals_need_more_than_one_stream():
    assert math.isclose(geometric_ratio([1.0], [2.0]).value, 0.5)


def test_the_decomposition_is_of_a_dozen_cells_and_says_what_a_switch_changes():
    assert len({cell.name for cell in chosen()}) == 12
    base = {"cell": [fared(10.0), fared(20.0)], "other": [fared(10.0)]}
    faster = {"cell": [fared(8.0), fared(16.0)], "other": [fared(5.0)]}
    found = decomposition({"the default": base, "faster": faster}).splitlines()
    assert found[-1] == "| faster | 0.632 | 0.500 | 0.800 | 1.000 |"


@pytest.mark.parametrize("name", SWITCHES)
def test_every_switch_can_be_simulated(name):
    cell = Cell("small", "jobs=10,load=0.9,max-cores=4,curves=amdahl:0.1", 4)
    assert switched(name, cell, 1).turnaround > 0


def test_the_sensitivity_compares_each_value_with_the_usual_one():
    found = {
        ("urgency", USUAL.urgency, "cell", 1): fared(10.0),
        ("urgency", USUAL.urgency, "cell", 2): fared(20.0),
        ("urgency", 1.0, "cell", 1): fared(40.0),
        ("urgency", 1.0, "cell", 2): fared(20.0),
    }
    ratios = points(found)["urgency"]
    assert ratios[1.0]["turnaround"] == pytest.approx(2.0)
    assert ratios[USUAL.urgency]["turnaround"] == pytest.approx(1.0)
    assert set(VALUES) == {field.name for field in fields(USUAL)}


def test_the_sensitivity_tells_the_best_and_the_worst_setting():
    found = {
        ("noise", USUAL.noise, "one", 1): fared(10.0),
        ("noise", USUAL.noise, "other", 1): fared(10.0),
        ("noise", 0.5, "one", 1): fared(5.0),
        ("noise", 0.5, "other", 1): fared(20.0),
    }
    of = points(found)["noise"][0.5]
    assert (of["best"], of["turnaround"], of["worst"]) == pytest.approx((0.5, 1.0, 2.0))


@pytest.mark.slow
def test_the_sensitivity_is_drawn(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(sensitivity, "VALUES", {"urgency": (1.0,), "noise": (0.5,)})
    monkeypatch.setattr(sensitivity, "chosen", lambda: [Cell("small", "jobs=10,max-cores=4", 4)])
    monkeypatch.setattr(sensitivity, "ProcessPoolExecutor", ThreadPoolExecutor)
    asked = ["--constants", "urgency", "--seeds", "1", "--out", str(tmp_path)]
    assert sensitivity.main(asked) == 0
    out = capsys.readouterr().out
    assert "| urgency | 1 |" in out
    assert "noise" not in out
    assert (tmp_path / "sensitivity.png").stat().st_size > 1000
