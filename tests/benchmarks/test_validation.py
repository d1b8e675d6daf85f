# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""How far simulations are off, and whether they order policies as real runs do."""

from __future__ import annotations

import time

from benchmarks.validation.__main__ import CONTAINERS, TITLES, Compared, compared, main, rows
from benchmarks.validation.drift import Probe, Run, probing, slowed
from tf_malleable.model import Machine, Shape
from tf_malleable.simulate.simulation import Scenario, simulate
from tf_malleable.simulate.task import Task
from tf_malleable.simulate.workload import Assumed


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
    (tmp_path / "probes.json").write_text("{}")
    (tmp_path / "results.json").write_text('{"machine": {"cpus": 2}}')
    status = main(["--recorded", str(tmp_path), "--only", "a", "--out", str(tmp_path / "out")])
    assert status == 1
    said = capfd.readouterr().err
    assert "has no run of a under equal, lend+efficient, lend+srpt, fcfs-strict" in said
    assert len(said.splitlines()) == 1


def test_a_machine_that_was_slower_under_one_policy_is_no_error_of_the_simulation():
    tasks = [
        Task(f"job {n}", 2.0 * n, 30.0 + 7 * n, Assumed().curve, Shape(1, 2, 2), starting=3.0)
        for n in range(4)
    ]
    scenario = Scenario((Machine.flat(2),))
    fast = simulate(tasks, "equal", scenario, spans=True).history
    slow = simulate(slowed(tasks, 1.5), "fcfs-strict", scenario, spans=True).history

    def off(probe_seconds: float) -> float:
        live = {"equal": [Run(fast, 1.0)], "fcfs-strict": [Run(slow, probe_seconds)]}
        return max(abs(one.off(0)) for one in compared("a", live, [], 2))

    assert off(1.5) < 2.0
    assert off(1.0) > 30.0


def test_computing_takes_longer_on_a_slower_machine_and_waiting_does_not():
    task = Task("reader", 0.0, 30.0, starting=2.0, fetching=4.0, ending=1.0, busy=5.0, idle=3.0)
    (slower,) = slowed([task], 2.0)
    assert (slower.seconds, slower.starting, slower.ending, slower.busy) == (60.0, 4.0, 2.0, 10.0)
    assert (slower.at, slower.fetching, slower.idle, slower.steps) == (0.0, 4.0, 3.0, task.steps)


def test_a_piece_of_work_is_timed_as_long_as_something_runs():
    with probing() as probe:
        time.sleep(0.5)
    taken = list(probe.taken)
    assert len(taken) >= 2
    assert min(taken) > 0.0002
    time.sleep(0.5)
    assert probe.taken == taken


def test_few_pieces_that_took_long_count():
    assert Probe([1.0, 1.0, 4.0]).seconds == 2.0


def test_containers_are_a_workload():
    assert CONTAINERS in TITLES
