# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""How far simulations are off, and whether they order policies as real runs do."""

from __future__ import annotations

from benchmarks.validation.__main__ import CONTAINERS, TITLES, Compared, main, rows


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
    assert "has no run of a under equal, lend+efficient, lend+srpt, fcfs-strict" in said
    assert len(said.splitlines()) == 1


def test_containers_are_a_workload():
    assert CONTAINERS in TITLES
