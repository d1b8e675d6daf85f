# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Command lines of the benchmarks: wrong ones are refused before anything is made."""

from __future__ import annotations

import importlib
import os
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from benchmarks.common.command_line import finish
from benchmarks.common.worker import WORKLOADS
from benchmarks.many.workloads import WORKLOADS as MANY
from benchmarks.single.names import MEASURES, Selection, select

ROOT = Path(__file__).parents[2]
NAMES = {
    "single": ("overhead", "fidelity", "capacity", "growth", "calls", "enlarge", "matmul"),
    "cores": ("capacity-64", "capacity-256", "changes", "enlarge", "tasks", "mlp"),
    "many": ("a", "b", "c", "d", "e", "f", "load", "latency"),
    "containers": ("quota", "resize", "enlarge", "arrivals"),
    "many.decisions": ("equal", "weighted", "srpt", "lend+efficient"),
    "elastic": ("unix", "tcp", "ring", "pauses-1m", "pauses-keras-25m", "accuracy", "servers"),
    "elastic_step": ("cnn", "lstm", "mlp"),
    "many_cores": ("trainings", "openmp", "grants", "simulator", "tier"),
    "openmp": ("torch-lstm", "lightgbm-train"),
    "lending": ("naps", "outside"),
    "page": ("pixel", "load", "grants"),
    "tier": ("epochs", "cold-8", "cold-small", "absent-8", "served", "half"),
    "power": ("calibration", "metering", "units", "budget"),
    "cluster": ("static-1", "static-2", "grows", "vertical", "deaths", "split", "kills"),
}
MODULES = {name: f"benchmarks.{name}.__main__" for name in NAMES} | {
    "many.decisions": "benchmarks.many.decisions"
}
HEAVY = ("docker", "keras", "matplotlib", "numpy", "psutil", "tensorflow")
benchmarks = pytest.mark.parametrize("name", NAMES)


@pytest.fixture
def run(capsys, tmp_path, monkeypatch):
    """Give a function that runs a benchmark in an empty folder."""
    monkeypatch.chdir(tmp_path)

    def run(name: str, *arguments: str) -> tuple[object, str, str]:
        with pytest.raises(SystemExit) as ended:
            importlib.import_module(MODULES[name]).main(arguments)
        return ended.value.code, *capsys.readouterr()

    return run


@benchmarks
def test_an_unknown_name_is_refused_before_anything_is_made(run, tmp_path, name):
    code, out, err = run(name, "--out", "results", "--only", NAMES[name][0], "NONSENSE")
    sentence = f"{name}: --only: there is no 'NONSENSE'; the names are "
    assert (code, out, err.startswith(sentence), err.count("\n")) == (2, "", True, 1)
    named = err.removeprefix(sentence).rstrip("\n").split(", ")
    assert set(NAMES[name]) <= set(named)
    assert list(tmp_path.iterdir()) == []


@benchmarks
@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (("--only",), "argument --only: expected at least one argument"),
        (("--rounds", "0"), "argument --rounds: must be an integer from 1, not '0'"),
        (("--rounds", "many"), "argument --rounds: must be an integer from 1, not 'many'"),
        (("--out", "file/results"), "--out: Not a directory: file/results"),
        (("--nonsense",), "unrecognized arguments: --nonsense"),
    ],
)
def test_what_is_wrong_is_said_in_one_sentence(run, tmp_path, name, arguments, sentence):
    (tmp_path / "file").touch()
    assert run(name, *arguments) == (2, "", f"{name}: {sentence}\n")
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


def test_an_unknown_policy_is_refused(run, tmp_path):
    code, out, err = run("many", "--policies", "nonsense")
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert "nonsense" in err
    assert list(tmp_path.iterdir()) == []


def test_a_workload_whose_frameworks_are_missing_is_refused(run, tmp_path, monkeypatch):
    missing = replace(MANY["f"], modules=("sys", "no_such_framework"))
    monkeypatch.setitem(MANY, "f", missing)
    code, out, err = run("many", "--only", "f")
    said = "many: --only: 'f' needs no_such_framework; see make bench-frameworks\n"
    assert (code, out, err) == (2, "", said)
    assert not list(tmp_path.iterdir())


@benchmarks
def test_list_prints_every_name_and_makes_nothing(run, tmp_path, name):
    code, out, err = run(name, "--list")
    assert (code, err) == (0, "")
    listed = [line.split(maxsplit=1) for line in out.splitlines()]
    assert set(NAMES[name]) <= {each for each, _ in listed}
    assert list(tmp_path.iterdir()) == []


@benchmarks
def test_list_prints_only_what_was_chosen(run, name):
    _, out, _ = run(name, "--list", "--only", NAMES[name][1])
    assert [line.split()[0] for line in out.splitlines()] == [NAMES[name][1]]


@benchmarks
def test_only_may_be_given_more_than_once(run, name):
    _, out, _ = run(name, "--list", "--only", NAMES[name][1], "--only", NAMES[name][0])
    assert {line.split()[0] for line in out.splitlines()} == set(NAMES[name][:2])


def test_a_reader_of_the_list_may_leave():
    reading, writing = os.pipe()
    os.close(reading)
    command = [sys.executable, "-m", "benchmarks.single", "--list"]
    done = subprocess.run(command, cwd=ROOT, stdout=writing, stderr=subprocess.PIPE, check=False)
    os.close(writing)
    assert (done.returncode, done.stderr) == (0, b"")


def test_nothing_heavy_is_imported_to_refuse():
    script = "import sys\n" + "".join(f"import {module}\n" for module in MODULES.values())
    script += f"print(*sorted(set(sys.modules) & {set(HEAVY)}))"
    done = subprocess.run(
        [sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert done.stdout == "\n"


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_signals_end_a_benchmark_as_ctrl_c_does(capsys, number):
    before = {each: signal.getsignal(each) for each in (signal.SIGTERM, signal.SIGHUP)}
    try:
        assert finish("many", lambda: signal.raise_signal(number)) == 130
    finally:
        for each, handler in before.items():
            signal.signal(each, handler)
    assert capsys.readouterr().err == "many: interrupted\n"


def test_workloads_of_no_measure_are_refused(run, tmp_path):
    code, out, err = run("single", "--out", "results", "--only", "matmul", "enlarge", "calls")
    sentence = "matmul can be chosen with overhead, fidelity, capacity, growth"
    assert (code, out) == (2, "")
    assert err == f"single: --only: {sentence}, not with calls, enlarge alone\n"
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("names", "measures", "workloads"),
    [
        ((), MEASURES, WORKLOADS),
        (("calls",), ("calls",), WORKLOADS),
        (("matmul",), ("overhead", "fidelity", "capacity", "growth"), ("matmul",)),
        (("calls", "overhead", "conv", "matmul"), ("overhead", "calls"), ("matmul", "conv")),
    ],
)
def test_names_select_measures_and_workloads(names, measures, workloads):
    assert select(names) == Selection(measures, workloads)
