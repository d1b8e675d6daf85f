# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Parts of the measurement of many cores fail, or take too long, without stopping the others."""

from __future__ import annotations

import json
import os
import subprocess

import pytest

from benchmarks.many_cores import __main__ as many_cores
from benchmarks.many_cores.__main__ import Part, main, parts, powers_of_two
from benchmarks.many_cores.measures import halves
from tests.support import ROOT
from tests.support.deadline import DEADLINE

WRITE = "import pathlib, sys, time; pathlib.Path(sys.argv[1]).write_text('[{}]'); "
PROGRAMS = {
    "trainings": WRITE.format(1) + "sys.exit('broken')",
    "openmp": WRITE.format(2) + "time.sleep(600)",
    "grants": WRITE.format(3),
}


def test_the_powers_of_two_end_with_the_number_itself():
    assert powers_of_two(16) == [1, 2, 4, 8, 16]
    assert powers_of_two(6) == [1, 2, 4, 6]
    assert powers_of_two(1) == [1]


@pytest.mark.slow
def test_a_part_that_fails_or_takes_too_long_is_said_and_the_next_begins(
    tmp_path, monkeypatch, capsys
):
    def stand_ins(out, *_):
        limits = {"trainings": DEADLINE, "openmp": 2.0, "grants": DEADLINE}
        made = {}
        for name, program in PROGRAMS.items():
            (tmp_path / f"stand_in_{name}.py").write_text(program)
            file = out / f"{name}.json"
            made[name] = Part((f"stand_in_{name}", str(file)), file, limits[name])
        return made

    monkeypatch.setattr(many_cores, "parts", stand_ins)
    monkeypatch.chdir(tmp_path)
    assert main(["--only", *PROGRAMS, "--out", str(tmp_path / "out")]) == 0
    said = capsys.readouterr()
    found = json.loads(said.out)["parts"]
    assert found["trainings"]["exit_code"] == 1
    assert found["trainings"]["problem"] == ["broken"]
    assert found["openmp"]["exit_code"] != 0
    assert found["openmp"]["problem"] == ["ended after 2 s"]
    assert 2 <= found["openmp"]["seconds"] < 2 + DEADLINE
    assert found["grants"]["exit_code"] == 0
    assert [found[name]["found"] for name in PROGRAMS] == [[1], [2], [3]]
    assert "openmp: limits of OpenMP programs" in said.err
    assert json.loads((tmp_path / "out" / "all.json").read_text())["parts"] == found


def test_all_parts_and_the_set_up_are_within_the_minutes(tmp_path):
    made = parts(tmp_path, rounds=3, seconds=4, minutes=12)
    assert set(made) == set(many_cores.PARTS)
    assert sum(part.limit for part in made.values()) <= 12 * 60 - 30
    longer = parts(tmp_path, rounds=3, seconds=4, minutes=24)
    assert all(longer[name].limit == 2 * made[name].limit for name in made)


def test_both_halves_are_all_cpus_and_share_none():
    lists = [slot.prefix[2].split(",") for slot in halves().slots]
    assert sorted(int(cpu) for cpus in lists for cpu in cpus) == sorted(os.sched_getaffinity(0))
    assert [slot.environment["OMP_NUM_THREADS"] for slot in halves().slots] == [
        str(len(cpus)) for cpus in lists
    ]


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ((), "name the folder of wheels; --help says how it is filled"),
        (("nowhere",), "there is no folder nowhere"),
        (("a", "b"), "one folder of wheels, not a and b"),
        (("--nonsense",), "there is no option --nonsense; --help lists them"),
        (("--cores",), "--cores needs a value"),
    ],
)
def test_the_script_refuses_in_one_sentence(arguments, sentence):
    done = subprocess.run(
        [ROOT / "tools" / "many_cores.sh", *arguments],
        capture_output=True,
        text=True,
        timeout=DEADLINE,
        check=False,
    )
    assert (done.returncode, done.stdout, done.stderr) == (2, "", f"many_cores: {sentence}\n")
