#!/usr/bin/env python3
# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Records the walk of README: real commands on a terminal, as an animated SVG.

Waiting is shortened; what is printed is left as it is. In an environment with tfm and TensorFlow:
.venv/bin/python tools/record_walk.py
"""

from __future__ import annotations

import argparse
import io
import json
import os
import pty
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

from rich.console import Console
from rich.text import Text

ROOT: Final = Path(__file__).resolve().parent.parent
_WIDTH: Final = 112
_PATIENCE_SECONDS: Final = 900.0
# What a viewer waits: to read a command, and between two lines at most.
_READ_SECONDS: Final = 2.0
_LINE_SECONDS: Final = 0.25

Jobs = dict[str, dict[str, Any]]


def trains(*names: str) -> Callable[[Jobs], bool]:
    """Return what is true once these jobs have done steps, and each uses the cores it has now."""
    return lambda jobs: all(
        jobs[name]["steps_done"] and jobs[name]["actual"] == jobs[name]["granted"] != []
        for name in names
    )


def has_all(name: str) -> Callable[[Jobs], bool]:
    """Return what is true once this job uses all the cores that it could."""
    return lambda jobs: len(jobs[name]["actual"]) == jobs[name]["desired"]


WALK: Final[tuple[tuple[str, Callable[[Jobs], bool] | None], ...]] = (
    ("tfm submit --name digits -- python cnn.py --steps 200000", trains("digits")),
    ("tfm jobs", None),
    ("tfm submit --name table -- python dense.py --steps 200000", trains("digits", "table")),
    ("tfm jobs    # two trainings share the cores", None),
    ("tfm pause table", has_all("digits")),
    ("tfm jobs    # and one has them again", None),
    ("tfm cancel digits table", lambda jobs: not jobs),
    ("tfm history", None),
)


def record(folder: Path) -> list[tuple[float, str]]:
    """Run the walk; return lines with the seconds at which a viewer sees them."""
    for name in ("run", "home"):
        (folder / name).mkdir(mode=0o700)
    for training in ("cnn.py", "dense.py"):
        (folder / training).symlink_to(ROOT / "examples" / "trainings" / training)
    environment = {
        "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
        "HOME": str(folder / "home"),
        "XDG_RUNTIME_DIR": str(folder / "run"),
        "XDG_STATE_HOME": str(folder / "home"),
        # Another controller may share out the same CPUs meanwhile.
        "TF_MALLEABLE_CLAIMS": "",
        "TERM": "xterm-256color",
        "COLUMNS": str(_WIDTH),
        "LINES": "50",
        "TF_CPP_MIN_LOG_LEVEL": "3",
    }
    seen, now = [], 0.5
    try:
        for command, until in WALK:
            seen.append((now, f"\x1b[1;32m$\x1b[0m \x1b[1m{command}\x1b[0m"))
            now += _READ_SECONDS / 2
            for after, line in _lines(command, folder, environment):
                now += min(after, _LINE_SECONDS)
                seen.append((now, line))
            now += _READ_SECONDS
            if until is not None:
                _wait(until, environment)
    finally:
        _end(environment)
    return seen


def _lines(command: str, folder: Path, environment: Mapping[str, str]) -> list[tuple[float, str]]:
    """Run a command on a terminal; return what it prints, with the seconds before each line."""
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        ["sh", "-c", command],
        cwd=folder,
        env=environment,
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        start_new_session=True,
    )
    os.close(theirs)
    found, rest, last = [], b"", time.monotonic()
    while True:
        try:
            data = os.read(ours, 65536)
        except OSError:  # The command has ended.
            break
        *lines, rest = (rest + data).split(b"\r\n")
        for line in lines:
            found.append((time.monotonic() - last, line.decode()))
            last = time.monotonic()
    os.close(ours)
    if process.wait() != 0:
        raise SystemExit(f"record_walk: {command!r} failed: {found}")
    return found


def _end(environment: Mapping[str, str]) -> None:
    """End the session's controller, and its jobs, of which there are some after an interruption."""
    said = subprocess.run(["tfm", "status", "--json"], env=environment, capture_output=True)
    if said.returncode == 0:
        for job in _jobs(environment):
            subprocess.run(["tfm", "cancel", job], env=environment, capture_output=True)
        pid = json.loads(said.stdout)["pid"]
        os.kill(pid, signal.SIGTERM)
        # Until then it writes to the folder that is removed next.
        while Path(f"/proc/{pid}").exists():
            time.sleep(0.1)


def _jobs(environment: Mapping[str, str]) -> Jobs:
    said = subprocess.run(
        ["tfm", "jobs", "--json"], env=environment, check=True, capture_output=True
    )
    return {job["name"]: job for job in json.loads(said.stdout)["jobs"]}


def _wait(until: Callable[[Jobs], bool], environment: Mapping[str, str]) -> None:
    deadline = time.monotonic() + _PATIENCE_SECONDS
    while time.monotonic() < deadline:
        if until(_jobs(environment)):
            return
        time.sleep(1)
    raise SystemExit(f"record_walk: nothing to show after {_PATIENCE_SECONDS:.0f} s")


def drawn(seen: list[tuple[float, str]], title: str) -> str:
    """Return an SVG in which each line appears at its time."""
    console = Console(record=True, width=_WIDTH, file=io.StringIO(), color_system="256")
    begins = []
    for begin, line in seen:
        for part in Text.from_ansi(line).wrap(console, _WIDTH) or [Text()]:
            console.print(part)
            begins.append(begin)
    svg = console.export_svg(title=title, unique_id="walk")
    # No font is fetched from another host.
    svg = re.sub(r"@font-face \{.*?\n    \}\n", "", svg, flags=re.DOTALL)

    def timed(found: re.Match[str]) -> str:
        begin = begins[int(found[1])]
        return f'{found[0]} style="animation-delay: {begin:.2f}s"'

    svg = re.sub(r'clip-path="url\(#walk-line-(\d+)\)"', timed, svg)
    rule = (
        "@keyframes walk-appear { to { visibility: visible; } }\n"
        "    .walk-matrix text, .walk-matrix rect"
        " { visibility: hidden; animation: walk-appear 0s forwards; }\n"
    )
    return svg.replace("<style>", f"<style>\n    {rule}", 1)


def main() -> None:
    """Record and draw."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=ROOT / "docs" / "images" / "walk.svg")
    out = parser.parse_args().out
    with tempfile.TemporaryDirectory(prefix="tfm-walk-") as folder:
        seen = record(Path(folder))
    out.write_text(drawn(seen, "two trainings share the cores"))
    print(f"{out}: {seen[-1][0]:.0f} s, {out.stat().st_size / 1000:.0f} kB")


if __name__ == "__main__":
    main()
