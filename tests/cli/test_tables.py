# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Tables of jobs in narrow terminals."""

from __future__ import annotations

import io
import os
import re
import struct
import subprocess
from fcntl import ioctl
from termios import TIOCSWINSZ

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from tests.support.commands import running, started, tfm
from tests.support.controllers import TFM, wait_for
from tests.support.deadline import DEADLINE
from tf_malleable.cli.tables import JobTable, cut_in_middle

NAME = "a_training_with_quite_a_long_name[17]"
ROW = ("12", NAME, "ada", "waiting", "123456", "0.25", "it needs 4 cores, 0 of 2 are free")
COLUMNS = (">id", "name", "user", "state", ">steps", ">share", "reason")


def lines_of(table: JobTable, width: int) -> list[str]:
    output = io.StringIO()
    Console(file=output, width=width, markup=False).print(table)
    return [line.rstrip() for line in output.getvalue().splitlines()]


def test_with_room_nothing_is_left_out():
    header, row = lines_of(JobTable(COLUMNS, [ROW], (">id",)), 200)
    assert header.split() == ["id", "name", "user", "state", "steps", "share", "reason"]
    assert re.split(" {1,}", row, maxsplit=6) == list(ROW)


def test_columns_go_one_by_one_and_then_names_are_cut_in_the_middle():
    table = JobTable(COLUMNS, [ROW], (">id", "name", "state", "reason"), ("user",))
    assert lines_of(table, 79) == [
        "id name             user state    steps share reason",
        "12 a_traini…ame[17] ada  waiting 123456  0.25 it needs 4 cores, 0 of 2 are free",
    ]
    assert lines_of(table, 78)[-1] == "no room for: user"
    header, row, note = lines_of(table, 65)
    assert header.split() == ["id", "name", "state", "reason"]
    assert re.search(r"^12 a_\S*…\S*7\] waiting it needs 4 cores", row)
    assert note == "no room for: user, steps, share"


@pytest.mark.parametrize("width", [20, 40, 60, 80, 120])
def test_no_line_is_wider_than_the_terminal(width):
    table = JobTable(COLUMNS, [ROW, ROW], (">id", "name", "state"))
    assert all(len(line) <= width for line in lines_of(table, width))


@given(text=st.text(max_size=60), most=st.integers(1, 70))
def test_the_ends_of_a_name_stay(text, most):
    cut = cut_in_middle(text, most)
    assert len(cut) == min(len(text), most)
    if len(text) <= most:
        assert cut == text
    else:
        middle = (most - 1) - (most - 1) // 2
        begin, end = cut[:middle], cut[middle + 1 :]
        assert text.startswith(begin)
        assert text.endswith(end)


def test_jobs_and_history_keep_id_name_state_and_outcome(controller):
    def on_terminal(*arguments: str) -> list[str]:
        ours, theirs = os.openpty()
        ioctl(theirs, TIOCSWINSZ, struct.pack("4H", 24, 80, 0, 0))
        with os.fdopen(theirs, "w") as end:
            process = subprocess.Popen([TFM, *arguments], stdout=end, stdin=subprocess.DEVNULL)
        said = b""
        while True:
            try:
                piece = os.read(ours, 4096)
            except OSError:  # All of its ends are closed.
                break
            said += piece
        os.close(ours)
        assert process.wait(DEADLINE) == 0
        return re.sub(r"\x1b\[[0-9;]*m", "", said.decode()).splitlines()

    with running("--name", NAME), started("run", "--name", "two", "--", "sleep", "600"):
        wait_for(lambda: len(controller.get("/v1/jobs")["jobs"]) == 2)
        header, first, second, note = on_terminal("jobs")
        assert header.split()[:3] == ["id", "name", "state"]
        assert {"granted", "actual", "reason"} < set(header.split())
        assert re.search(r"^ 1 a_\S+…\S+\[17\] +running ", first)
        assert "it needs 1 core, 0 of 1 are free" in second
        assert note.startswith("no room for: ")
        assert NAME in tfm("jobs").stdout
        tfm("cancel", "--all")
        wait_for(lambda: not controller.get("/v1/jobs")["jobs"])
    header, *rows = on_terminal("history")
    assert header.split()[:4] == ["id", "name", "user", "outcome"]
    assert any(re.search(r"^ *1 a_\S+…\S+\[17\] +\S+ +cancelled ", row) for row in rows)
