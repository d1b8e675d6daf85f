# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""How far simulations are off, and whether they order policies as real runs do."""

from __future__ import annotations

import json
from dataclasses import replace

import msgspec
import pytest

from benchmarks.validation.__main__ import CONTAINERS, POLICIES, TITLES, Compared, main, rows
from tf_malleable.model import Machine, Shape
from tf_malleable.simulate.engine.simulation import Scenario, simulate
from tf_malleable.simulate.engine.task import Task
from tf_malleable.simulate.engine.workload import Assumed


def found(*makespans: tuple[str, float, float]) -> dict[str, object]:
    """Return the values of the rows, by label; makespans are live and simulated."""
    made = rows(
        [
            Compared("a", name, ((live - 1, 10.0), (live + 1, 10.0)), (simulated, 10.0))
            for name, live, simulated in makespans
        ]
    )
    return {row.label: row.found.value for row in made}


def test_by_how_much_they_are_off():
    values = found(("equal", 100.0, 103.0), ("srpt", 100.0, 92.0))
    assert round(values["equal: makespan, off by"], 6) == 3.0
    assert round(values["srpt: makespan, off by"], 6) == 8.0
    assert values["srpt: mean turnaround, off by"] == 0.0


def test_policies_that_differ_are_in_the_same_order():
    label = "policies in another order than live"
    assert found(("equal", 100.0, 101.0), ("srpt", 90.0, 100.0))[label] == 0
    assert found(("equal", 100.0, 101.0), ("srpt", 90.0, 102.0))[label] == 1
    # Too little to call one better.
    assert found(("equal", 100.0, 101.0), ("srpt", 97.0, 102.0))[label] == 0


def test_runs_that_were_not_recorded_are_named(tmp_path, capfd):
    (tmp_path / "curves.json").write_text("[]")
    (tmp_path / "results.json").write_text('{"machine": {"cpus": 2}}')
    status = main(["--recorded", str(tmp_path), "--only", "a", "--out", str(tmp_path / "out")])
    assert status == 1
    said = capfd.readouterr().err
    assert "no run of a under equal, lend+efficient, lend+srpt, fcfs-strict in" in said
    assert len(said.splitlines()) == 1


def test_without_an_engine_containers_are_refused_in_one_sentence(tmp_path, capfd, monkeypatch):
    monkeypatch.setenv("DOCKER_HOST", f"unix://{tmp_path}/docker.sock")
    assert main(["--only", CONTAINERS, "--out", str(tmp_path)]) == 1
    (sentence,) = capfd.readouterr().err.splitlines()
    assert sentence.startswith("validation: ")
    assert "docker.sock" in sentence


def test_rounds_on_machines_of_different_sizes_are_refused(tmp_path, capfd):
    for cpus in (2, 4):
        (tmp_path / str(cpus)).mkdir()
        (tmp_path / str(cpus) / "curves.json").write_text("[]")
        (tmp_path / str(cpus) / "results.json").write_text(f'{{"machine": {{"cpus": {cpus}}}}}')
    out = tmp_path / "out"
    said = ["--recorded", str(tmp_path / "4"), str(tmp_path / "2"), "--out", str(out)]
    assert main(said) == 1
    sentence = "validation: --recorded must name runs on as many CPUs, not on 2 and 4\n"
    assert capfd.readouterr().err == sentence


@pytest.mark.slow
def test_rounds_of_several_folders_count_together(tmp_path, capfd):
    tasks = [
        Task(f"job {n}", 2.0 * n, 30.0 + 7 * n, Assumed().curve, Shape(1, 2, 2), starting=3.0)
        for n in range(4)
    ]
    folders = []
    # A machine that was slower the second time, under all policies.
    for name, slower in (("first", 1.0), ("second", 1.25)):
        folders.append(tmp_path / name)
        folders[-1].mkdir()
        (folders[-1] / "curves.json").write_text("[]")
        (folders[-1] / "results.json").write_text('{"machine": {"cpus": 2}}')
        again = [replace(each, seconds=slower * each.seconds) for each in tasks]
        for policy in POLICIES:
            scenario = Scenario((Machine.flat(2),))
            live = simulate(again, policy, scenario, spans=True).history
            (folders[-1] / f"a-{policy}-1.json").write_bytes(msgspec.json.encode(live))
    out = tmp_path / "out"
    said = ["--recorded", *map(str, folders), "--only", "a", "--out", str(out)]
    assert main(said) == 0
    made = json.loads((out / "results.json").read_text())["rows"]
    assert len(made) == 9
    assert all("in 2 runs" in row["remark"] for row in made[:8])
    assert max(row["found"]["value"] for row in made[:8]) < 2.0


def test_containers_are_a_workload():
    assert CONTAINERS in TITLES
