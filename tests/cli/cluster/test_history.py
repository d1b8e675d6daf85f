# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""tfm cluster history and gantt: MalleableJobs over time."""

from __future__ import annotations

import json

import pytest

from tests.cli.cluster.conftest import STATUS
from tf_malleable.cli.cluster import timeline
from tf_malleable.cli.cluster.job_view import JobView


def view(name="a", created="2026-01-01T00:00:00Z", **status) -> JobView:
    return JobView.read(
        {
            "metadata": {"name": name, "namespace": "n", "creationTimestamp": created},
            "spec": {"shards": 8},
            "status": status,
        }
    )


ZERO = view().created


def change(seconds: int, before: float, after: float, field: str = "workers"):
    return {
        "at": f"2026-01-01T00:00:{seconds:02}Z",
        "from": {field: before},
        "to": {field: after},
        "reason": "join",
    }


def stretches(job: JobView, unit="worker", now=60):
    (row,) = timeline.rows([job], unit, ZERO + now)
    return [(s.begin, s.end, s.state, s.cores) for s in row.stretches], row.outcome


def test_who_has_not_started_waits():
    assert stretches(view()) == ([(0, 60, "waiting", 0)], None)


def test_changes_are_steps_and_the_end_ends():
    job = view(
        phase="Succeeded",
        startedAt="2026-01-01T00:00:05Z",
        endedAt="2026-01-01T00:00:50Z",
        rescales=[change(5, 0, 1), change(20, 1, 3), change(30, 3, 2)],
    )
    assert stretches(job) == (
        [
            (0, 5, "waiting", 0),
            (5, 20, "running", 1),
            (20, 30, "running", 3),
            (30, 50, "running", 2),
        ],
        "finished",
    )


def test_it_waits_until_its_first_worker_trains():
    job = view(
        phase="Running",
        startedAt="2026-01-01T00:00:05Z",
        rescales=[change(12, 0, 1), {**change(20, 1, 1), "reason": "speed"}],
    )
    assert stretches(job)[0] == [
        (0, 5, "waiting", 0),
        (5, 12, "waiting", 0),
        (12, 60, "running", 1),
    ]


def test_what_is_forgotten_is_taken_from_the_first_change_that_is_not():
    job = view(phase="Running", startedAt="2026-01-01T00:00:05Z", rescales=[change(20, 2, 3)])
    assert stretches(job)[0][1:] == [(5, 20, "running", 2), (20, 60, "running", 3)]


def test_a_suspended_job_pauses_since_its_condition_says_so():
    stopped = {"type": "Running", "status": "False", "lastTransitionTime": "2026-01-01T00:00:40Z"}
    job = view(
        phase="Suspended",
        startedAt="2026-01-01T00:00:05Z",
        rescales=[change(5, 0, 2)],
        conditions=[stopped],
    )
    assert stretches(job)[0][1:] == [(5, 40, "running", 2), (40, 60, "paused", 0)]


def test_cpus_are_drawn_if_all_changes_have_them():
    some, none = change(20, 1, 2, "cpus"), change(20, 1, 2)
    assert timeline.unit_of([view(rescales=[some])]) == "CPU"
    assert timeline.unit_of([view(rescales=[some]), view(rescales=[none])]) == "worker"
    job = view(
        phase="Failed", startedAt="2026-01-01T00:00:05Z", rescales=[change(9, 1, 2.5, "cpus")]
    )
    found, outcome = stretches(job, "CPU")
    assert (found[-1], outcome) == ((9, 60, "running", 2.5), "failed")


def test_jobs_are_listed_as_they_came_with_their_times(tfm, submit):
    submit()
    ended = {**STATUS, "phase": "Succeeded", "endedAt": "2026-01-01T00:02:00Z", "failures": 2}
    submit("other", ended)
    said = tfm("history")
    head, first, second = [line.split() for line in said.out.splitlines()]
    assert head[:3] == ["name", "phase", "created"]
    assert (first[:2], second[:2]) == (["digits", "Running"], ["other", "Succeeded"])
    assert second[-7:] == ["1", "48", "ms", "2", "120", "of", "400"]
    found = json.loads(tfm("history", "--json").out)
    assert found[1]["running_seconds"] == 110
    assert found[1]["name"] == "other"


@pytest.mark.slow
def test_a_picture_is_drawn(tfm, submit, tmp_path, cluster):
    cluster.add_node("a", 4)
    submit()
    said = tfm("gantt", tmp_path / "g.svg")
    assert (said.code, said.err) == (0, "")
    text = (tmp_path / "g.svg").read_text()
    assert "makespan" in text


def test_what_cannot_be_drawn(tfm, cluster, tmp_path):
    assert tfm("gantt", tmp_path / "g.pdf").code == 2
    said = tfm("gantt", tmp_path / "g.svg")
    assert (said.code, said.err) == (1, "tfm: there are no MalleableJobs to draw\n")


@pytest.mark.parametrize("text", ["2026-01-01T00:00:05Z", "2026-01-01T00:00:05.000000Z"])
def test_times_of_both_kinds_are_read(text):
    assert view(startedAt=text).started == ZERO + 5


@pytest.mark.slow
def test_the_picture_says_what_its_bars_are():
    from tf_malleable.figures.gantt import draw_rows

    job = view(phase="Running", startedAt="2026-01-01T00:00:05Z", rescales=[change(20, 2, 3)])
    figure = draw_rows(timeline.rows([job], "worker", ZERO + 60), "", unit="worker")
    assert figure.axes[-1].get_ylabel() == "workers"
    (legend,) = figure.legends
    assert "running, full height: 3 workers" in [text.get_text() for text in legend.get_texts()]
