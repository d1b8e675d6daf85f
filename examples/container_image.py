# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""An image of this machine's Python, as tools/make_test_image.py makes it, for a while."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

TOOL = Path(__file__).parents[1] / "tools" / "make_test_image.py"


class ImageError(Exception):
    """Why there is no image, in one sentence."""


@dataclass(frozen=True)
class Image:
    """An image; its entry point is `tfm run --`.

    Attributes:
        tag: Tag of the image.
        volumes: Mounts that its containers need, as ``"/path:/path:ro"``.
    """

    tag: str
    volumes: tuple[str, ...]


@contextmanager
def container_image(client: Any, tag: str, also: Sequence[Path]) -> Iterator[Image]:  # noqa: ANN401
    """Provide an image for the length of the with statement.

    Args:
        client: Client of the engine, from Docker's SDK.
        tag: Tag to give the image.
        also: More paths of this machine that its containers need.

    Raises:
        ImageError: It cannot be made.
    """
    paths = [word for path in also for word in ("--also", str(path))]
    done = subprocess.run(
        [sys.executable, str(TOOL), "--json", "--tag", tag, *paths],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode != 0:
        lines = done.stderr.strip().splitlines()
        why = lines[-1].removeprefix(f"{TOOL.stem}: ") if lines else None
        raise ImageError(why or f"{TOOL.name} ended with {done.returncode}")
    try:
        yield Image(tag, tuple(json.loads(done.stdout)["volumes"]))
    finally:
        client.images.remove(tag, force=True)
