# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""What the pages say to type works as written, and prints what they show.

All blocks of commands and Python are run: page by page in the order of the page, each page in an
empty home folder with the files whose text is a block with a title. `$ ` begins a command, which
must end with 0. What follows must be among its output, in this order. Words that have a digit, or
no letter, may be others, and so may users, paths, units and dates; `…` stands for anything;
other lines may be between. A command that harms nothing is repeated until it shows that, as a
reader would: what was started in the background takes its time.

What cannot run here has an invisible comment before its block with the reason, which must be one
of REASONS. See `tests.support.pages.Block` for the comments.
"""

from __future__ import annotations

import re
import time
from collections import Counter
from pathlib import Path

import pytest

from tests.support import ROOT
from tests.support.deadline import DEADLINE
from tests.support.page_shell import Shell
from tests.support.pages import PAGES, Block, Command, blocks, commands, missing

REASONS = {
    "depends on the time of day": 2,
    "is a signature": 1,
    "needs a Kubernetes cluster": 11,
    "needs a clone, and builds or runs for minutes to hours": 9,
    "needs a reboot": 1,
    "needs another host": 3,
    "needs Docker": 8,
    "needs GPUs": 1,
    "needs power meters, or a broker": 3,
    "needs root, or changes the system": 5,
    "needs PyTorch and scikit-learn": 1,
    "needs S3": 1,
    "needs sendmail": 1,
    "needs systemd": 5,
}
"""Why blocks, or some of their commands, are not run, and how often that is said."""

REPEATED = re.compile(
    r"tfm (?:jobs|top|status|history|show|policy|power(?! calibrate)|elastic (?:set|status)"
    r"|tier (?!serve))"
)
"""Commands that a reader repeats until what was started in the background has come so far."""

TRAINING = """\
import os
import time

import tf_malleable

steps = int(os.environ.get("STEPS", "20"))
for step in range(1, steps + 1):
    time.sleep(0.1)
    tf_malleable.progress(step, steps)
"""
"""Stands for a reader's own training where a page has none: TensorFlow takes long to import."""

ELASTIC = """\
import keras
import numpy as np

model = keras.Sequential([keras.layers.Dense(4)])
model.compile("sgd", "mse")
model.fit(np.zeros((64, 8)), np.zeros((64, 4)), epochs=20, verbose=0)
"""
"""The same where it has to be Keras's fit()."""

READER = """\
from pathlib import Path

for file in Path("data").rglob("*"):
    if file.is_file():
        file.read_bytes()
"""
"""The same where it has to read data."""

STAND_INS = {"elastic-training.md": ELASTIC, "data-tier.md": READER}


def name(page) -> str:
    return str(page.relative_to(ROOT))


RUN = [page for page in PAGES if any(block.is_run for block in blocks(page))]


@pytest.fixture
def shell(tmp_path):
    tmp_path.chmod(0o700)
    shell = Shell(tmp_path)
    yield shell
    shell.close()


def files(page: Path) -> dict[str, str]:
    """Return the files that a reader of a page has, by name: a tutorial goes on with its own."""
    folder = page.parent.glob("*.md") if "tutorial" in page.parts else [page]
    titled = {block.title: block.text for each in folder for block in blocks(each) if block.title}
    training = STAND_INS.get(page.name, TRAINING)
    return {"train.py": training, "finetune.py": training, **titled}


@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("page", RUN, ids=name)
def test_a_page_works_as_written(page, shell):
    for file, text in files(page).items():
        (shell.folder / file).write_text(text)
    for block in blocks(page):
        if block.is_run and block.reason() is None:
            run_block(shell, block, name(page))


def run_block(shell: Shell, block: Block, where: str) -> None:
    before = "\n".join(words for _, words in block.said("run before"))
    if block.language == "python":
        run_command(shell, Command(f"python - <<'END'\n{before}\n{block.text}\nEND"), where)
        return
    if before:
        run_command(shell, Command(before), where)
    *most, last = commands(block)
    for command in most:
        if block.reason(command.text) is None:
            run_command(shell, command, f"{where}:{block.line}")
    interrupted = [words for _, words in block.said("interrupted after")]
    if interrupted:
        _code, printed = shell.run_interrupted(last.text, lambda text: interrupted[0] in text)
        assert missing(last.shown, printed) is None, f"{where}: {last.text}\nprinted {printed}"
        assert "Traceback" not in printed
    elif block.reason(last.text) is None:
        run_command(shell, last, f"{where}:{block.line}")


def run_command(shell: Shell, command: Command, where: str) -> None:
    until = time.monotonic() + DEADLINE
    while True:
        began = time.monotonic()
        code, printed = shell.run(command.text, command.typed)
        print(f"$ {command.text}   # {code}, {time.monotonic() - began:.1f} s\n{printed}")
        lacks = missing(command.shown, printed)
        if code == 0 and lacks is None:
            return
        if not REPEATED.match(command.text) or time.monotonic() > until:
            break
        time.sleep(0.2)
    pytest.fail(f"{where}: {command.text}\nexit code {code}; no line like {lacks!r} in\n{printed}")


def test_what_is_not_run_says_why():
    said = Counter(
        why
        for page in RUN
        for block in blocks(page)
        if block.is_run
        for _, why in block.said("not run")
    )
    assert said == REASONS


def test_comments_are_understood():
    """A comment with a slip in it would let a block run, or have it left out."""
    known = {"not run", "run before", "interrupted after"}
    for page in PAGES:
        for block in blocks(page):
            count = sum(len(block.said(verb)) for verb in known)
            assert count == len(block.comments), f"{name(page)}:{block.line}: {block.comments}"


PAGE = """\
text
<!-- not run: needs Docker -->
<!-- run before: echo 1 >a -->
```console
$ docker run \\
    it
1 name
$ tfm jobs   # all
laptop$ ssh
```

   ```python title="a.py"
   if a:
       b
   ```
<!-- not run (rm): why -->
```console
$ python
>>> 1
1
>>> for a in b:
...     c
...
$ rm a
```
```
no language
```
"""


@pytest.fixture
def read(tmp_path):
    file = tmp_path / "page.md"
    file.write_text(PAGE)
    return blocks(file)


def test_blocks_are_read(read):
    first, second, third = read
    assert (first.is_run, second.is_run, third.is_run) == (True, False, True)
    assert first.reason("docker") == "needs Docker"
    assert first.said("run before") == [(None, "echo 1 >a")]
    assert (second.title, second.text) == ("a.py", "if a:\n    b\n")
    assert (third.reason(), third.reason("rm a"), third.reason("python")) == (None, "why", None)
    assert commands(first) == [
        Command("docker run \\\n    it", ("1 name",)),
        Command("tfm jobs   # all"),
        Command("ssh"),
    ]
    assert commands(third) == [
        Command("python", ("1",), ("1", "for a in b:", "    c", "")),
        Command("rm a"),
    ]


@pytest.mark.parametrize(
    ("shown", "printed"),
    [
        ("id name  state", "id name state"),
        ("1 train.py root running 2  1.0 0.0 s", "12 train.py someone running - 0.1 1:02"),
        ("since Nov 22 13:19:43 (4.2 s)", "since Jan 1 00:00:00 (12 ms)"),
        ("token=WJq…", "token=WJqabc"),
        ("A ━╸ 31%", "A - -"),
    ],
)
def test_other_figures_fit(shown, printed):
    assert missing((shown,), f"before\n{printed}\nafter\n") is None


@pytest.mark.parametrize(
    ("shown", "printed"),
    [
        ("id name state", "id state name"),
        ("1 train.py running", "1 train.py paused"),
        ("1 train.py running", "1 other running"),
        ("CPUs 2 used", "CPUs used"),
        ("controller", "the controller"),
    ],
)
def test_other_words_do_not_fit(shown, printed):
    assert missing((shown,), printed) == shown


def test_lines_are_in_order():
    assert missing(("b", "a"), "a\nb\n") == "a"


def test_a_shell_runs_and_interrupts(shell):
    assert shell.run("export A=b; false") == (1, "")
    assert shell.run("echo $A $HOME") == (0, f"b {shell.folder}\n")
    assert shell.run("python", ("1 + 1", "for a in 'xy':", "    print(a)", ""))[0] == 0
    code, printed = shell.run_interrupted(
        "sh -c 'echo now; exec sleep 600'", lambda text: "now" in text
    )
    assert "now" in printed
    assert code == 130
    assert shell.run("sleep 600 & echo on")[0] == 0
