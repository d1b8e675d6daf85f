# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Start scripts and launchers that change Python's environment: TensorFlow stays malleable."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys

import pytest

from tests.support.commands import tfm

PYTHON = shlex.quote(sys.executable)
LIMIT = (
    "import sys, tensorflow as tf; tf.constant(1.0) + 1; t = sys.modules.get('tf_malleable');"
    " print('stock' if t is None else t.get_threads().intra)"
)


def limits(script: str, cwd: os.PathLike[str], threads: int = 1) -> list[str]:
    """Return the limits that the Pythons of a shell script print."""
    done = tfm("run", "--threads", str(threads), "--", "sh", "-ec", script, cwd=cwd)
    assert done.returncode == 0, done.stderr
    return done.stdout.split()


@pytest.mark.slow
@pytest.mark.parametrize(
    "script",
    [
        f'export PYTHONPATH=$PWD/src\n{PYTHON} -c "{LIMIT}"',
        f'unset PYTHONPATH\n{PYTHON} -c "{LIMIT}"',
        f'PYTHONPATH= {PYTHON} -c "{LIMIT}"',
        f'{PYTHON} -E -c "{LIMIT}"',
        f'{PYTHON} -I -c "{LIMIT}"',
        f'env -u PYTHONPATH {PYTHON} -X utf8 -c "{LIMIT}"',
    ],
)
def test_a_script_may_set_or_ignore_pythonpath(tmp_path, script):
    assert limits(script, tmp_path) == ["1"]


@pytest.mark.slow
def test_a_child_may_get_a_pythonpath_of_its_own(tmp_path):
    parent = tmp_path / "parent.py"
    parent.write_text(
        "import os, subprocess, sys\n"
        "env = {**os.environ, 'PYTHONPATH': '/nowhere'}\n"
        f"subprocess.run([sys.executable, '-c', {LIMIT!r}], env=env, check=True)\n"
    )
    assert limits(f"{PYTHON} parent.py", tmp_path) == ["1"]


@pytest.mark.slow
def test_another_sitecustomize_may_hide_ours(tmp_path):
    # As opentelemetry-instrument does: it puts a folder with a sitecustomize first, and starts
    # the program.
    folder = tmp_path / "auto_instrumentation"
    folder.mkdir()
    (folder / "sitecustomize.py").write_text("print('instrumented')\n")
    script = f'PYTHONPATH={folder}:$PYTHONPATH exec {PYTHON} -c "{LIMIT}"'
    assert limits(script, tmp_path) == ["instrumented", "1"]


def test_without_tfm_run_nothing_is_loaded(tmp_path):
    code = (
        "import sys; print([n for n in sys.modules if 'malleable' in n],"
        " [type(m).__module__ for m in sys.meta_path if 'malleable' in type(m).__module__])"
    )
    environment = {name: value for name, value in os.environ.items() if "MALLEABLE" not in name}
    found = subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True
    )
    assert found.stdout.strip() == "[] []"
