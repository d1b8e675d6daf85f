# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""The picture shows every job's cores over time, and the metrics above them."""

from __future__ import annotations

import re
import struct

import msgspec
import numpy as np
import pytest
from matplotlib import image
from matplotlib.collections import PolyCollection
from matplotlib.colors import to_rgb

from tests.support.histories import ZERO, history, job, shared
from tf_malleable.api.schema.history import History
from tf_malleable.figures import gantt, style


def boxes(axes, *, hatched: bool = False) -> list[tuple[float, float, float, float]]:
    """Return left, right, low and high of the rectangles in a picture's part."""
    found = []
    for collection in axes.collections:
        if not isinstance(collection, PolyCollection) or collection.zorder == 0:
            continue  # A row's shade.
        if bool(collection.get_hatch()) == hatched:
            for path in collection.get_paths():
                (left, low), (right, high) = path.get_extents().get_points()
                found.append((left, right, round(low, 6), round(high, 6)))
    return sorted(found)


def heights(axes, row: int) -> list[tuple[float, float, float]]:
    """Return when one row has bars of which height."""
    return [
        (left, right, round(high - low, 3))
        for left, right, low, high in boxes(axes)
        if row < low < high < row + 1
    ]


def test_bars_are_as_high_as_the_job_has_cores():
    upper, _ = gantt.draw(shared()).axes
    (_, _, full), (_, _, half), *_ = heights(upper, 0)
    assert heights(upper, 0) == [(0, 4, full), (4, 6, half), (8, 10, half), (10, 12, full)]
    assert half == pytest.approx(full / 2)
    assert heights(upper, 1) == [(4, 8, half)]
    waiting, running = heights(upper, 2)
    assert running == (6, 9, half)
    assert waiting[:2] == (5, 6)
    assert waiting[2] < half / 2
    assert [(left, right) for left, right, *_ in boxes(upper, hatched=True)] == [(6, 8)]
    assert [label.get_text() for label in upper.get_yticklabels()] == [
        "large.py",
        "small.py (2)",
        "small.py (3)",
    ]


def test_one_core_of_many_can_be_seen_and_more_are_higher():
    cores = [1, 2, 4, 16, 64]
    jobs = [job(i, f"{i}", [(0, 1, "running", range(count))]) for i, count in enumerate(cores)]
    upper, _ = gantt.draw(history(*jobs)).axes
    found = [heights(upper, i)[0][2] for i in range(len(cores))]
    assert found == sorted(set(found))
    assert found[0] == pytest.approx(found[-1] / 4, abs=1e-3)


def test_the_strip_adds_the_cores_up():
    _, lower = gantt.draw(shared()).axes
    found = boxes(lower)
    assert (0, 4, 0, 2) in found
    assert (6, 9, 1, 2) in found
    assert sum((right - left) * (high - low) for left, right, low, high in found) == 23
    assert boxes(lower, hatched=True) == []


def test_more_cores_than_there_are_is_shown():
    jobs = [job(i, f"{i}", [(i, i + 4, "running", [0, 1])]) for i in range(2)]
    figure = gantt.draw(history(*jobs))
    assert boxes(figure.axes[1], hatched=True) == [(1, 4, 2, 4)]
    assert "more cores than there are" in texts(figure)
    enough = gantt.draw(history(*jobs), cpus=4)
    assert boxes(enough.axes[1], hatched=True) == []
    assert "more cores than there are" not in texts(enough)


def test_idle_cpus_are_not_forgotten():
    only = history(job(1, "a", [(0, 4, "running", [0])]))
    _, lower = gantt.draw(only, cpus=8).axes
    assert lower.get_ylim()[1] > 8


def texts(figure) -> list[str]:
    legend = figure.legends[0]
    titles = [axes.get_title(loc) for axes in figure.axes for loc in ("left", "right")]
    return [*titles, *(text.get_text() for text in legend.get_texts())]


def test_title_and_legend():
    shown = texts(gantt.draw(shared()))
    title = "makespan 12.0 s  ·  mean turnaround 6.7 s  ·  mean slowdown 1.07"
    assert shown[0] == title
    assert shown[4:] == ["running, full height: 2 cores", "waiting", "paused", "failed"]
    plain = texts(gantt.draw(history(job(1, "a", [(0, 4, "running", [0])]))))
    assert plain[4:] == ["running, full height: 1 core"]


def test_two_histories_on_one_time_axis():
    other = history(job(1, "a", [(0, 30, "running", [0])]))
    figure = gantt.compare([("with", shared()), ("without", other)])
    upper, _, second, lowest = figure.axes
    assert {axes.get_xlim() for axes in figure.axes} == {upper.get_xlim()}
    assert upper.get_xlim()[1] >= 30
    assert (upper.get_title("left"), second.get_title("left")) == ("with", "without")
    assert "makespan 30.0 s" in second.get_title("right")
    assert "(s)" in lowest.get_xlabel()


@pytest.mark.parametrize(("length", "unit"), [(200, "(s)"), (3000, "(min)"), (20_000, "(h)")])
def test_long_times_have_larger_units(length, unit):
    figure = gantt.draw(history(job(1, "a", [(0, length, "running", [0])])))
    assert unit in figure.axes[-1].get_xlabel()


@pytest.mark.slow
@pytest.mark.parametrize("count", [0, 1, 5, 128, 400])
def test_any_number_of_jobs_fits(count, tmp_path):
    jobs = [
        job(i, f"job-{i}", [(i, i + 1, "waiting", []), (i + 1, i + 9, "running", [i % 8])])
        for i in range(count)
    ]
    figure = gantt.draw(history(*jobs))
    upper, _ = figure.axes
    assert figure.get_size_inches()[1] < 40
    labels = [label.get_text() for label in upper.get_yticklabels()]
    if count <= 128:
        assert labels == [f"job-{i}" for i in range(count)]
    else:
        assert 100 < len(labels) < count
    style.write(figure, tmp_path / "picture.png")
    picture = image.imread(tmp_path / "picture.png")[:, :, :3]
    assert picture.shape[1] == 1260
    blue = np.isclose(picture, to_rgb("#0072B2"), atol=0.01).all(axis=2)
    assert blue.any() == (count > 0)


@pytest.mark.slow
def test_names_cannot_break_the_picture(tmp_path):
    names = ["$x$ $", "a_b^c", "\\frac{", "ü" * 300, "<&>", "%s {0}"]
    jobs = [job(i, name, [(0, 1, "running", [0])]) for i, name in enumerate(names)]
    style.write(gantt.draw(history(*jobs)), tmp_path / "picture.svg")
    assert "</svg>" in (tmp_path / "picture.svg").read_text()


@pytest.mark.slow
def test_the_same_history_gives_the_same_file(tmp_path):
    for suffix in ("png", "svg"):
        first, second = tmp_path / f"1.{suffix}", tmp_path / f"2.{suffix}"
        style.write(gantt.draw(shared()), first)
        style.write(gantt.draw(shared()), second)
        assert first.read_bytes() == second.read_bytes()
    width, height = struct.unpack(">II", (tmp_path / "1.png").read_bytes()[16:24])
    assert width > height > 300
    assert re.search(r"<svg [^>]*viewBox", (tmp_path / "1.svg").read_text())


def virtual(count: int, cpus: int) -> History:
    """Return many jobs as a simulator has them: their times begin at 0."""
    jobs = [
        job(
            i,
            f"job-{i}",
            [
                (1000 * i, 1000 * i + 500, "waiting", []),
                (1000 * i + 500, 1000 * i + 9000, "running", range(i % cpus, cpus, 2)),
            ],
        )
        for i in range(count)
    ]
    found = history(*jobs)
    return History(
        [
            msgspec.structs.replace(
                record,
                submitted=record.submitted - ZERO,
                started=(record.started or 0.0) - ZERO,
                ended=record.ended - ZERO,
            )
            for record in found.jobs
        ],
        [
            msgspec.structs.replace(span, begin=span.begin - ZERO, end=span.end - ZERO)
            for span in found.spans
        ],
        found.summary,
    )


@pytest.mark.slow
def test_virtual_time_begins_at_0_and_has_no_dates():
    figure = gantt.draw(virtual(600, 256), cpus=256)
    upper, lower = figure.axes
    assert upper.get_xlim()[0] == 0
    assert boxes(upper)[0][:2] == (0, 500)
    assert [label.get_text() for label in lower.get_xticklabels()] == ["0", *"1234567"]
    assert lower.get_xlabel() == "time since the first arrival (d)"
    assert 10 < figure.get_size_inches()[1] < 40


@pytest.mark.parametrize("cpus", [1, 8, 64, 256])
def test_any_number_of_cpus_has_a_label(cpus):
    _, lower = gantt.draw(virtual(3, cpus), cpus=cpus).axes
    assert max(lower.get_yticks()) >= cpus
    assert cpus in lower.get_yticks()


def test_the_number_of_cpus_is_not_written_over():
    nearly = [job(i, f"{i}", [(0, 4, "running", range(count))]) for i, count in enumerate([256, 8])]
    _, lower = gantt.draw(history(*nearly), cpus=256).axes
    assert lower.get_yticks().tolist() == [0, 256]
    far = [job(i, f"{i}", [(0, 4, "running", range(256))]) for i in range(2)]
    _, lower = gantt.draw(history(*far), cpus=256).axes
    assert lower.get_yticks().tolist() == [0, 256, 512]


def test_ticks_are_whole_hours():
    long = history(job(1, "a", [(0, 50_000, "running", [0])]))
    labels = [label.get_text() for label in gantt.draw(long).axes[-1].get_xticklabels()]
    assert labels == ["0", "2", "4", "6", "8", "10", "12"]


def test_parts_of_one_history_have_one_beginning_and_their_own_cpus():
    first = history(job(1, "a", [(0, 40, "running", [0, 1])]))
    second = history(job(2, "b", [(10, 30, "running", [2])]))
    parts = [("host 1", first), ("host 2", second)]
    _, one, upper, two = gantt.compare(parts, cpus=[2, 1], zero=ZERO).axes
    assert boxes(upper)[0][:2] == (10, 30)
    assert (max(one.get_yticks()), max(two.get_yticks())) == (2, 1)


def test_too_many_histories_for_one_picture():
    with pytest.raises(ValueError, match=r"at most 40 histories, not 41"):
        gantt.compare([("", shared())] * 41)
