# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Demos refuse at once what would fail after minutes, and say what is wrong in one sentence."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.deadline import DEADLINE

EXAMPLES = Path(__file__).parents[2] / "examples"


def run(
    name: str, folder: Path, *arguments: str, path: str = ""
) -> subprocess.CompletedProcess[str]:
    inherited = filter(None, os.environ.get("PYTHONPATH", "").split(os.pathsep))
    paths = [path, *map(os.path.abspath, inherited)]
    return subprocess.run(
        [sys.executable, str(EXAMPLES / name), *arguments],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, paths))},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "arguments", "sentence"),
    [
        ("demo.py", ["--out", "x.bmp"], "demo: --out must be a file .png or .svg, not 'x.bmp'"),
        ("demo.py", ["--out"], "demo: argument --out: expected one argument"),
        (
            "demo.py",
            ["--trainings", "none.txt"],
            "demo: cannot read none.txt: No such file or directory",
        ),
        (
            "demo_elastic.py",
            ["--out", "x"],
            "demo-elastic: --out must be a file .png or .svg, not 'x'",
        ),
        (
            "one_process.py",
            ["--out", "picture"],
            "one-process: --out must be a file .png or .svg, not 'picture'",
        ),
        ("one_process.py", ["--seconds", "0"], "one-process: --seconds must be at least 1.0"),
    ],
)
def test_bad_arguments_are_refused_in_a_sentence(tmp_path, name, arguments, sentence):
    done = run(name, tmp_path, *arguments)
    assert (done.returncode, done.stdout) == (2, "")
    # TensorFlow, which one of them imports first, may print warnings before.
    assert done.stderr.splitlines()[-1] == sentence
    assert "usage:" not in done.stderr
    assert list(tmp_path.iterdir()) == []


@pytest.mark.slow
def test_the_demo_of_tiers_refuses_what_it_cannot_draw(tmp_path):
    done = run("demo_tier.py", tmp_path, "--out", "x", path=str(EXAMPLES.parent))
    sentence = "demo-tier: --out must be a file .png or .svg, not 'x'\n"
    assert (done.returncode, done.stdout, done.stderr) == (2, "", sentence)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.slow
def test_what_the_trainings_lack_is_said_before_any_starts(tmp_path):
    (tmp_path / "broken").mkdir()
    (tmp_path / "broken" / "keras.py").write_text("raise ImportError('no keras today')\n")
    done = run("demo.py", tmp_path, "--out", "demo.png", path=str(tmp_path / "broken"))
    assert done.returncode == 1
    sentence = "demo: 'import keras, sklearn.datasets' failed: ImportError: no keras today\n"
    assert done.stderr == sentence
    assert list((tmp_path / "demo").iterdir()) == []


@pytest.mark.slow
def test_a_narrated_program_ends_by_sigterm_in_order(tmp_path):
    # As the first process of a container, the default would be to go on.
    body = "    print('began', flush=True)\n    time.sleep(60)\n"
    program = f"import time\ntry:\n{body}finally:\n    print('ended')\n"
    (tmp_path / "train.py").write_text(program)
    command = [sys.executable, str(EXAMPLES / "narrated.py"), str(tmp_path / "train.py")]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as running:
        assert running.stdout is not None
        assert running.stdout.readline() == "began\n"
        running.terminate()
        assert running.communicate(timeout=DEADLINE)[0] == "ended\n"
    assert running.returncode == 128 + signal.SIGTERM


@pytest.mark.slow
@pytest.mark.parametrize("module", ["matplotlib", "sklearn"])
def test_an_example_says_what_it_needs(tmp_path, module):
    # As Python says of a module that is not installed.
    missing = f"raise ModuleNotFoundError(\"No module named '{module}'\", name='{module}')\n"
    (tmp_path / f"{module}.py").write_text(missing)
    done = run("one_process.py", tmp_path, path=str(tmp_path))
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.splitlines()[-1] == (
        f"one-process: this example needs {module}: pip install tensorflow matplotlib scikit-learn"
    )
