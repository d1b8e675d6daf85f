# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Which files are pictures, by their names."""

from __future__ import annotations

from pathlib import Path

import pytest

from tf_malleable.figures.formats import is_picture


@pytest.mark.parametrize("name", ["x.png", "x.svg", "x.PNG", "some.where/x.y.Svg"])
def test_pictures(name):
    assert is_picture(Path(name))


@pytest.mark.parametrize("name", ["x", "x.bmp", "x.pdf", "png", ".png", "x.png/y"])
def test_other_files(name):
    assert not is_picture(Path(name))
