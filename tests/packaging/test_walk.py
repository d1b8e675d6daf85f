# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""The recorded session of README has the commands of its script, and loads nothing."""

from __future__ import annotations

import html
import re
from pathlib import Path

from record_walk import WALK, drawn

IMAGE = Path(__file__).parents[2] / "docs" / "images" / "walk.svg"
MOST_BYTES = 300_000


def texts(svg: str) -> str:
    return html.unescape("".join(re.findall(r"<text [^>]*>(.*?)</text>", svg))).replace("\xa0", " ")


def test_the_image_shows_the_commands_of_the_script():
    assert IMAGE.stat().st_size < MOST_BYTES
    said = texts(IMAGE.read_text())
    assert [command for command, _ in WALK if command not in said] == []


def test_the_image_loads_nothing():
    assert "url(" in IMAGE.read_text()  # Its own clip paths.
    assert re.findall(r"url\(\W*http|<script|href", IMAGE.read_text()) == []


def test_each_line_appears_at_its_time_and_a_long_one_is_folded():
    svg = drawn([(0.5, "\x1b[1mfirst\x1b[0m"), (2.25, "word " * 30), (3.0, "last")], "title")
    delays = dict.fromkeys(re.findall(r"animation-delay: ([\d.]+)s", svg))
    assert list(delays) == ["0.50", "2.25", "3.00"]
    assert texts(svg).count("word") == 30
