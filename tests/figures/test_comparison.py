# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Several policies side by side in one picture."""

from __future__ import annotations

import struct
from itertools import combinations

import pytest
from matplotlib.figure import Figure

from tests.support.histories import ZERO, history, job, shared
from tf_malleable.api.schema.history import History, Span
from tf_malleable.figures import comparison, style

ALONE = [(0, 4, "running", [0])]


def draw(histories, cores, path, title):
    style.write(comparison.compare(histories, cores, title), path)


def drawn(histories: dict[str, History], cores: int = 2) -> Figure:
    return comparison.compare(histories, cores, "title")


def longer() -> History:
    return history(job(1, "a", [(0, 10, "waiting", []), (10, 40, "running", [0])]))


def test_three_panels_with_a_line_for_each_policy():
    figure = drawn({"equal": shared(), "srpt": longer()})
    turnaround, utilisation, queue = figure.axes
    assert [axes.get_title("left") for axes in figure.axes] == [
        "Turnaround",
        "Utilisation",
        "Queue",
    ]
    assert [len(axes.lines) for axes in figure.axes] == [2, 2, 2]
    assert [tuple(point) for point in turnaround.lines[0].get_xydata()] == [
        (4, 0),
        (4, pytest.approx(2 / 3)),
        (12, 1),
    ]
    assert [tuple(point) for point in utilisation.lines[1].get_xydata()] == [
        (0, 0),
        (10, 0.5),
        (40, 0),
    ]
    assert [tuple(point) for point in queue.lines[1].get_xydata()] == [(0, 1), (10, 0), (40, 0)]
    assert figure.get_suptitle() == "title"
    assert comparison.compare({"equal": shared()}, 2).get_suptitle() == ""


def test_axes_have_names_and_units():
    turnaround, utilisation, queue = drawn({"equal": shared()}).axes
    assert "(%)" in turnaround.get_ylabel()
    assert "%" in utilisation.get_ylabel()
    assert queue.get_ylabel() == "jobs without cores"
    assert queue.get_xlabel() == "time since the first arrival (s)"
    assert utilisation.get_xlim() == queue.get_xlim()
    assert turnaround.get_xscale() == "log"
    assert "2 s" in [label.get_text() for label in turnaround.get_xticklabels()]


def test_one_legend_says_which_line_is_whose():
    figure = drawn({"equal": shared(), "srpt": longer()})
    assert [legend for axes in figure.axes if (legend := axes.get_legend())] == []
    (legend,) = figure.legends
    assert [text.get_text() for text in legend.get_texts()] == ["equal", "srpt"]
    for handle, *lines in zip(
        legend.legend_handles, *(axes.lines for axes in figure.axes), strict=True
    ):
        assert {line.get_color() for line in lines} == {handle.get_color()}
        assert {line._unscaled_dash_pattern for line in lines} == {handle._unscaled_dash_pattern}


def test_many_lines_differ_and_neighbours_even_in_grey():
    figure = drawn({f"policy {number}": shared() for number in range(24)})
    looks = [(line.get_color(), line._unscaled_dash_pattern) for line in figure.axes[0].lines]
    assert all(one != two for one, two in combinations(looks, 2))
    assert len({dashes for _, dashes in looks[:8]}) == 8


def test_long_times_are_hours_or_days():
    weeks = history(job(1, "a", [(0, 1_500_000, "running", [0])]))
    assert "(d)" in drawn({"equal": weeks}).axes[2].get_xlabel()
    day = history(job(1, "a", [(0, 90_000, "running", [0])]))
    assert "(h)" in drawn({"equal": day}).axes[2].get_xlabel()


def test_where_too_much_happens_means_are_drawn_and_said_to_be():
    busy = history(
        *(job(n, "a", [(10 * n, 10 * n + 7, "running", [0])]) for n in range(500)), cpus=1
    )
    figure = drawn({"busy": busy, "calm": shared()}, cores=1)
    _, utilisation, queue = figure.axes
    assert "each step is the mean of 1 min" in queue.get_xlabel()
    assert all(len(line.get_xdata()) <= 122 for line in (*utilisation.lines, *queue.lines))
    steps = utilisation.lines[0].get_ydata()
    assert steps[1:-2] == pytest.approx([0.7] * len(steps[1:-2]))


def test_more_than_all_cores_stay_in_the_picture():
    over = history(job(1, "a", [(0, 4, "running", [0, 1, 2])]))
    assert drawn({"lend": over}, cores=2).axes[1].get_ylim()[1] > 1.5


def test_a_policy_without_jobs_is_named():
    figure = drawn({"equal": shared(), "none": history()})
    labels = [text.get_text() for text in figure.legends[0].get_texts()]
    assert labels == ["equal", "none (no jobs)"]


@pytest.mark.parametrize("life", [ALONE, [(0, 0, "running", [0])], [(0, 1e-9, "running", [0])]])
@pytest.mark.parametrize("suffix", ["svg", "png"])
@pytest.mark.slow
def test_a_single_job_makes_a_picture(life, suffix, tmp_path):
    path = tmp_path / f"picture.{suffix}"
    draw({"equal": history(job(1, "a", life))}, 1, path, "one")
    assert path.stat().st_size > 5000


@pytest.mark.parametrize("histories", [{}, {"equal": history()}])
def test_nothing_to_draw(histories):
    with pytest.raises(ValueError, match=r"^there are no jobs to draw$"):
        comparison.compare(histories, 4)


def test_no_cores():
    with pytest.raises(ValueError, match=r"^there must be at least 1 core to share out, not 0$"):
        comparison.compare({"equal": shared()}, 0)


@pytest.mark.slow
def test_the_same_histories_give_the_same_file(tmp_path):
    for suffix in ("png", "svg"):
        first, second = tmp_path / f"1.{suffix}", tmp_path / f"2.{suffix}"
        for path in (first, second):
            draw({"equal": shared(), "srpt": longer()}, 2, path, "two")
        assert first.read_bytes() == second.read_bytes()
    width, height = struct.unpack(">II", (tmp_path / "1.png").read_bytes()[16:24])
    assert width > height > 600
    text = (tmp_path / "1.svg").read_text()
    assert "<dc:date>" not in text


@pytest.mark.slow
def test_names_cannot_break_the_picture(tmp_path):
    names = ["$x$ $", "a_b^c", "\\frac{", "ü" * 300, "<&>", "%s {0}", "_hidden"]
    path = tmp_path / "picture.svg"
    draw(dict.fromkeys(names, shared()), 2, path, "$" + "\\frac{" * 40)
    assert "</svg>" in path.read_text()


def overlaps(boxes) -> list[tuple[str, str]]:
    return [
        (one, two)
        for (one, first), (two, second) in combinations(boxes, 2)
        if first.overlaps(second)
    ]


@pytest.mark.slow
@pytest.mark.parametrize("length", [4, 40_000, 90_000_000])
@pytest.mark.parametrize("policies", [1, 13])
@pytest.mark.parametrize("name", ["srpt", "fcfs-always-attend,ageing", "priority-preempt,more" * 4])
def test_no_text_overlaps_another(length, policies, name):
    lives = [(0, length / 100, "running", [0]), (0, length, "running", [0])]
    jobs = history(*(job(n, "a", [life]) for n, life in enumerate(lives)))
    figure = drawn({f"{n} {name}": jobs for n in range(policies)})
    figure.draw_without_rendering()
    texts = [figure._suptitle, *figure.legends[0].get_texts()]
    for axes in figure.axes:
        low, high = axes.get_ylim()
        # Labels of ticks beyond the end of the axis are not drawn.
        within = [text for text in axes.get_yticklabels() if low <= text.get_position()[1] <= high]
        shown = [*axes.get_xticklabels(), *within]
        shown += [axes.xaxis.label, axes.yaxis.label, axes._left_title]
        texts += [text for text in shown if text.get_text() and text.get_visible()]
    boxes = [(text.get_text(), text.get_window_extent()) for text in texts]
    boxes = [(text, box) for text, box in boxes if box.width > 1]
    assert overlaps(boxes) == []
    page = figure.bbox
    assert all(box.x0 >= 0 and box.x1 <= page.x1 and box.y0 >= 0 for _, box in boxes)


@pytest.mark.slow
def test_a_hundred_thousand_spans_are_drawn_in_seconds(tmp_path):
    records, spans = [], []
    for number in range(1000):
        record, _ = job(number, "a", [(number, number + 1000, "running", [0])])
        records.append(record)
        spans += [
            Span(record.id, ZERO + number + 10 * turn, ZERO + number + 10 * turn + 10, state, cpus)
            for turn in range(100)
            for state, cpus in [("paused", []) if turn % 2 else ("running", [number % 64])]
        ]
    assert len(spans) == 100_000
    many = History(records, spans, shared().summary)
    path = tmp_path / "picture.svg"
    draw({"equal": many}, 64, path, "many")
    # Without means it would be ten times as large.
    assert path.stat().st_size < 300_000
