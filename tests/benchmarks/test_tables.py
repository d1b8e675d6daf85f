# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Files of results, as tables for the documentation."""

from __future__ import annotations

import json

import pytest

from benchmarks.common import tables
from benchmarks.common.estimates import estimate, once
from benchmarks.common.rows import Row, Target
from benchmarks.common.runs import Outcome, Run

ROWS = [
    Row("load", "CPUs used", "CPUs", estimate([[0.1, 0.2], [0.3]]), Target(0.15), remark="so so"),
    Row("load", "failures", "", once(0.0), Target(0)),
]
RUNS = [Run(0, "a", "all at once", (Outcome("cnn-64", 0.0, 0.1, 12.0, 0, 40, 40, 11.0),))]


def results() -> dict:
    return {
        "benchmark": "many",
        "command": "python -m benchmarks.many",
        "date": "2026-01-02T03:04:05+00:00",
        "machine": {"cpu": "A CPU", "cpus": 2, "memory_bytes": 2**33, "kernel": "6.1"},
        "versions": {"python": "3.11.2"},
        "commit": "0123456789abcdef",
        "uncommitted_changes": False,
        "titles": {"a": "5 mixed jobs at once"},
        "noise": {"others": 0.01, "stolen": 0.002},
        "seconds": 120.0,
        "rows": [row.as_json() for row in ROWS],
        "runs": [run.as_json() for run in RUNS],
    }


def printed(capsys, path) -> str:
    assert tables.main([str(path)]) == 0
    return capsys.readouterr().out


def test_a_file_is_printed_as_tables(capsys, tmp_path):
    path = tmp_path / "results.json"
    path.write_text(json.dumps(results()))
    text = printed(capsys, path)
    assert text.startswith("## many\n")
    assert "| load: CPUs used | ≤ 0.15 | **0.20** [" in text
    assert "| load: failures | ≤ 0 | 0 | |" in text
    assert "| a: 5 mixed jobs at once | 12.0 / 12.0 |" in text


def test_the_speed_of_the_machine_is_told_where_it_counts(capsys, tmp_path):
    path = tmp_path / "results.json"
    path.write_text(json.dumps({**results(), "pace": {"cnn": 0.5, "dense": 1.25}}))
    assert "| speed, to which steps are scaled | cnn 0.5, dense 1.25 |" in printed(capsys, path)


def test_a_file_with_quartiles_is_printed_the_same(capsys, tmp_path):
    now, before = tmp_path / "now.json", tmp_path / "before.json"
    content = results()
    now.write_text(json.dumps(content))
    for row in content["rows"]:
        row["found"]["quartiles"] = [row["found"]["low"], row["found"]["high"]]
    before.write_text(json.dumps(content))
    assert printed(capsys, before) == printed(capsys, now)


@pytest.mark.parametrize("text", ["[]", "{}", "no JSON", '{"rows": [{"found": {}}], "runs": []}'])
def test_another_file_is_refused_in_a_sentence(capsys, tmp_path, text):
    path = tmp_path / "results.json"
    path.write_text(text)
    with pytest.raises(SystemExit) as ended:
        tables.main([str(path)])
    sentence = f"tables: {path} holds no results of a benchmark of this version\n"
    assert (ended.value.code, *capsys.readouterr()) == (2, "", sentence)
