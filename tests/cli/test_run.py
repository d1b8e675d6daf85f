# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""tfm run changes nothing but TensorFlow: the program's own code, signals and streams."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

TFM = str(Path(sys.executable).parent / "tfm")

LIMITS = """
import sys
import tensorflow as tf
tf.constant(1.0) + 1
import tf_malleable as tfm
print(tfm.backend(), tfm.get_threads().intra, tfm.get_threads().inter)
"""


def tfm(*arguments: str, **options) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [TFM, *arguments], capture_output=True, text=True, timeout=120, check=False, **options
    )


@pytest.fixture
def script(tmp_path):
    path = tmp_path / "train.py"
    path.write_text(LIMITS)
    return str(path)


def test_an_unchanged_script_is_malleable(script):
    result = tfm("run", "--threads", "1", "--", sys.executable, script)
    assert result.stdout == "overlay 1 1\n"


def test_without_threads_tensorflow_starts_as_it_would(script):
    env = {**os.environ, "TF_NUM_INTRAOP_THREADS": "1", "TF_NUM_INTEROP_THREADS": "2"}
    result = tfm("run", "--", sys.executable, script, env=env)
    assert result.stdout == "overlay 1 2\n"


def test_children_are_malleable_too(script):
    grandchild = "import subprocess, sys; subprocess.run([sys.executable, sys.argv[1]])"
    shell = f"{sys.executable} {script}; exec {sys.executable} -c '{grandchild}' {script}"
    result = tfm("run", "--threads", "1", "--", "sh", "-c", shell)
    assert result.stdout == "overlay 1 1\noverlay 1 1\n"


def test_exit_code_arguments_and_streams_pass_through():
    program = (
        "import sys; sys.stdout.buffer.write(sys.stdin.buffer.read()); sys.exit(len(sys.argv))"
    )
    data = bytes(range(256)) * 1000
    result = subprocess.run(
        [TFM, "run", "--", sys.executable, "-c", program, "--threads", "9", "--help", "--", "-x"],
        input=data,
        capture_output=True,
        timeout=60,
        check=False,
    )
    assert (result.returncode, result.stdout, result.stderr) == (6, data, b"")


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGUSR1, signal.SIGKILL])
def test_signals_reach_the_program_itself(number):
    process = subprocess.Popen(
        [TFM, "run", "--", "sh", "-c", "echo $$; exec sleep 60"], stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    assert int(process.stdout.readline()) == process.pid
    process.send_signal(number)
    assert process.wait(30) == -number


def test_a_program_without_tensorflow_does_not_notice():
    program = (
        "import sys; print(sorted(m for m in sys.modules if m.startswith(('tf_m', 'tensor'))))"
    )
    result = tfm("run", "--", sys.executable, "-c", program)
    assert (result.stdout, result.stderr) == ("[]\n", "")


def test_the_user_s_own_sitecustomize_still_runs(tmp_path):
    (tmp_path / "sitecustomize.py").write_text("print('mine')")
    env = {**os.environ, "PYTHONPATH": str(tmp_path)}
    result = tfm(
        "run", "--", sys.executable, "-c", "import sitecustomize as s; print(s.__file__)", env=env
    )
    # Once in the program; tfm is a Python itself.
    assert result.stdout.splitlines()[1:] == ["mine", str(tmp_path / "sitecustomize.py")]


def test_a_python_without_us_runs_on_stock_and_says_so(tmp_path):
    fake = tmp_path / "tensorflow.py"
    fake.write_text("print('stock')")
    broken = tmp_path / "tf_malleable.py"
    broken.write_text("raise ImportError('built against another TensorFlow')")
    shell = f"PYTHONPATH=$PYTHONPATH:{tmp_path} exec {sys.executable} -c 'import tensorflow'"
    result = tfm("run", "--", "sh", "-c", shell)
    assert result.returncode == 0
    assert result.stdout == "stock\n"
    assert result.stderr == "tfm run: not malleable here: built against another TensorFlow\n"


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["run", "--threads", "0", "--", "true"], 2, "--threads must be an integer from 1 to"),
        (["run", "--threads", "-3", "--", "true"], 2, "--threads must be an integer from 1 to"),
        (["run", "--threads", "99999", "--", "true"], 2, ", not 99999"),
        (["run", "--threads", "two", "--", "true"], 2, "'two' is not a valid integer"),
        (["run"], 2, "Missing argument"),
        (["jog"], 2, "No such command 'jog'"),
        (["run", "--", "no-such-program-here"], 127, "there is no program 'no-such-program-here'"),
        (["run", "--", "/"], 126, "cannot run '/': "),
    ],
)
def test_bad_input_is_one_line(arguments, code, message):
    result = tfm(*arguments)
    assert result.returncode == code
    assert result.stdout == ""
    assert len(result.stderr.splitlines()) == 1
    assert result.stderr.startswith("tfm: ")
    assert message in result.stderr


@pytest.mark.parametrize("name", ["TF_MALLEABLE_MAX_THREADS", "TF_MALLEABLE_THREADS"])
def test_a_garbage_variable_is_one_line(name):
    result = tfm("run", "--", "true", env={**os.environ, name: "lots"})
    assert (result.returncode, result.stdout) == (2, "")
    assert result.stderr.startswith(f"tfm: {name} must be an integer from 1 to ")
    assert len(result.stderr.splitlines()) == 1


def test_help_names_the_option():
    result = tfm("run", "--help")
    assert result.returncode == 0
    assert "--threads" in result.stdout


def test_ctrl_c_with_workers_parked_ends_the_program(tmp_path):
    # Interrupted inside an eager op, stock TensorFlow 2.21 itself often corrupts its heap when it
    # runs with one thread; so the program sleeps.
    script = tmp_path / "busy.py"
    script.write_text(
        "import time\nimport tensorflow as tf\nx = tf.random.normal((512, 512))\ny = x @ x\n"
        "print('go', flush=True)\ntime.sleep(60)\n"
    )
    process = subprocess.Popen(
        [TFM, "run", "--threads", "1", "--", sys.executable, str(script)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "go\n"
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=30)
    # What Python makes of a KeyboardInterrupt that nobody catches.
    assert process.returncode == -signal.SIGINT
    assert errors.rstrip().endswith("KeyboardInterrupt")
