# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""tfm run changes nothing but TensorFlow: the program's own code, signals and streams."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys

import pytest

from tests.support.commands import answer, listening, started, tfm
from tests.support.controllers import TFM
from tests.support.deadline import DEADLINE
from tf_malleable.api.schema import requirement

LIMITS = """
import sys
import sysconfig
import tensorflow as tf
tf.constant(1.0) + 1
import tf_malleable as tfm
print(tfm.backend(), tfm.get_threads().intra, tfm.get_threads().inter)
"""


@pytest.fixture
def script(tmp_path):
    path = tmp_path / "train.py"
    path.write_text(LIMITS)
    return str(path)


@pytest.mark.slow
def test_an_unchanged_script_is_malleable(script):
    result = tfm("run", "--threads", "1", "--", sys.executable, script)
    assert result.stdout == "overlay 1 1\n"


@pytest.mark.slow
def test_without_threads_tensorflow_starts_as_it_would(script):
    env = {**os.environ, "TF_NUM_INTRAOP_THREADS": "1", "TF_NUM_INTEROP_THREADS": "2"}
    result = tfm("run", "--no-follow-cgroup", "--", sys.executable, script, env=env)
    assert result.stdout == "overlay 1 2\n"


@pytest.mark.slow
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
        [
            *(TFM, "run", "--threads", "1", "--"),
            *(sys.executable, "-c", program, "--threads", "9", "--help", "--", "-x"),
        ],
        input=data,
        capture_output=True,
        timeout=DEADLINE,
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
    assert process.wait(DEADLINE) == -number


def test_a_program_without_tensorflow_does_not_notice():
    program = (
        "import sys; print(sorted(m for m in sys.modules if m.startswith(('tf_m', 'tensor'))))"
    )
    result = tfm("run", "--threads", "1", "--", sys.executable, "-c", program)
    assert (result.stdout, result.stderr) == ("[]\n", "")


# What JAX and PyTorch import first of theirs that has threads.
OTHERS = {
    "JAX": ("jaxlib", "xla_client"),
    "PyTorch": ("torch", "_C"),
    "onnxruntime": ("onnxruntime.capi", "onnxruntime_pybind11_state"),
}
USES = """
import importlib, importlib.util, sys
importlib.util.find_spec(sys.argv[1])
print("found", flush=True)
importlib.import_module(".".join(sys.argv[1:]))
"""


@pytest.fixture
def others(tmp_path, monkeypatch):
    """Stand in for the other libraries: packages with the modules that have threads."""
    for package, module in OTHERS.values():
        folder = tmp_path / package.replace(".", "/")
        folder.mkdir(parents=True)
        for name in ("__init__", module):
            (folder / f"{name}.py").touch()
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))


@pytest.mark.parametrize("library", OTHERS)
@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="one CPU confines all")
def test_that_a_limit_does_not_reach_a_library_is_said_once(others, library, monkeypatch):
    monkeypatch.setenv("TF_MALLEABLE_OPENMP", "0")
    result = tfm("run", "--threads", "1", "--", sys.executable, "-c", USES, *OTHERS[library])
    assert (result.returncode, result.stdout) == (0, "found\n")
    assert result.stderr == (
        f"tfm run: --threads 1 does not limit {library}, which has threads of its own: confine it"
        " with taskset, or start a controller, which confines every process of a job to its CPUs\n"
    )


@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="one CPU confines all")
def test_of_a_library_that_computes_with_openmp_nothing_is_said(others):
    result = tfm("run", "--threads", "1", "--", sys.executable, "-c", USES, *OTHERS["PyTorch"])
    assert (result.returncode, result.stdout, result.stderr) == (0, "found\n", "")


@pytest.mark.parametrize(
    ("confined", "options", "env"),
    [
        (["taskset", "-c", str(min(os.sched_getaffinity(0)))], ["--threads", "1"], {}),
        ([], ["--no-follow-cgroup"], {}),
        # As the first grant of a controller leaves them.
        ([], ["--no-follow-cgroup"], {"TF_MALLEABLE_THREADS": "1"}),
        ([], ["--no-follow-cgroup"], {"TF_MALLEABLE_THREADS": "many"}),
    ],
)
@pytest.mark.parametrize("library", OTHERS)
def test_where_a_library_is_confined_or_no_limit_was_asked_for_nothing_is_said(
    others, library, confined, options, env
):
    words = ["env", *(f"{name}={value}" for name, value in env.items())]
    program = [sys.executable, "-c", USES, *OTHERS[library]]
    result = subprocess.run(
        [*confined, TFM, "run", *options, "--", *words, *program],
        capture_output=True,
        text=True,
        timeout=DEADLINE,
        check=False,
    )
    assert (result.returncode, result.stdout) == (0, "found\n")
    assert library not in result.stderr


def test_without_a_controller_it_says_so_and_leaves_word_for_the_agent(socket):
    program = "import os; print(os.environ['TF_MALLEABLE_JOIN'])"
    result = tfm("run", "--min", "2", "--weight", "3", "--", sys.executable, "-c", program)
    assert result.stderr == f"tfm: no controller answers at {socket}, running alone\n"
    join = json.loads(result.stdout)
    assert join.pop("command") == [sys.executable, "-c", program]
    name = os.path.basename(sys.executable)
    assert join == {"socket": str(socket), "name": name, "min": 2, "priority": 0, "weight": 3.0}


def test_by_hand_nobody_is_asked_and_no_agent_joins(monkeypatch):
    monkeypatch.setenv("TF_MALLEABLE_JOIN", '{"socket": "/nowhere", "name": "outer"}')
    monkeypatch.setenv("TF_MALLEABLE_FOLLOW_CGROUP", "1")
    for variable in ("TF_MALLEABLE_CLAIMS", "TF_MALLEABLE_CPU_WEIGHTS"):
        monkeypatch.delenv(variable, raising=False)
    program = "import os; print(sorted(v for v in os.environ if v.startswith('TF_MALLEABLE_')))"
    result = tfm("run", "--threads", "1", "--", sys.executable, "-c", program)
    kept = ["TF_MALLEABLE_PRELOAD", "TF_MALLEABLE_SOCKET", "TF_MALLEABLE_THREADS"]
    assert result.stdout == f"{kept}\n"
    assert result.stderr == ""


@pytest.mark.parametrize(
    ("options", "env", "said"),
    [
        (["--follow-cgroup"], {}, "1"),
        (["--no-follow-cgroup"], {"KUBERNETES_SERVICE_HOST": "10.0.0.1"}, "0"),
        ([], {"KUBERNETES_SERVICE_HOST": "10.0.0.1"}, "1"),
        ([], {"container": "podman"}, "1"),
        # A tfm run around this one has decided, or has set the limit by hand.
        ([], {"container": "podman", "TF_MALLEABLE_FOLLOW_CGROUP": "0"}, "0"),
        ([], {"container": "podman", "TF_MALLEABLE_THREADS": "1"}, "0"),
        (["--follow-cgroup"], {"TF_MALLEABLE_FOLLOW_CGROUP": "0"}, "1"),
        (["--follow-cgroup"], {"TF_MALLEABLE_THREADS": "1"}, "1"),
        (["--no-follow-cgroup", "--threads", "1"], {"container": "podman"}, "None"),
    ],
)
def test_it_follows_the_cgroup_when_asked_to_and_in_a_container(options, env, said):
    program = "import os; print(os.environ.get('TF_MALLEABLE_FOLLOW_CGROUP'))"
    result = tfm("run", *options, "--", sys.executable, "-c", program, env={**os.environ, **env})
    assert result.stdout == f"{said}\n"


def test_a_socket_that_nobody_listens_at_is_no_controller(socket):
    socket.parent.mkdir()
    with listening(socket):
        pass
    result = tfm("run", "--", "echo", "ran")
    assert (result.returncode, result.stdout) == (0, "ran\n")
    assert result.stderr == f"tfm: no controller answers at {socket}, running alone\n"


@pytest.mark.parametrize(
    "said",
    [b"220 mail.example.com ESMTP\r\n", b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n[]"],
)
def test_something_else_at_the_socket_does_not_keep_a_program_from_running(socket, said):
    socket.parent.mkdir()
    with listening(socket) as server, started("run", "--", "echo", "ran") as process:
        answer(server, said)
        output, errors = process.communicate(timeout=DEADLINE)
    assert (process.returncode, output) == (0, "ran\n")
    assert errors.startswith(f"tfm: cannot reach the controller at {socket} (")
    assert errors.endswith("), running alone\n")


def test_what_controllers_need_is_not_loaded():
    program = (
        "import os, sys\n"
        "modules, sys.argv[1:] = sys.argv[1:], ['run', '--', 'true']\n"
        "os.execvp = lambda *_: print([m for m in modules if m in sys.modules], flush=True)"
        " or os._exit(0)\n"
        "from tf_malleable_cli import main\n"
        "main()\n"
    )
    modules = ["aiohttp", "asyncio", "http.client", "matplotlib", "msgspec", "rich", "sqlite3"]
    result = subprocess.run(
        [sys.executable, "-c", program, *modules],
        capture_output=True,
        text=True,
        timeout=DEADLINE,
        check=False,
    )
    assert result.stdout == "[]\n"


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
    result = tfm("run", "--threads", "1", "--", "sh", "-c", shell)
    assert result.returncode == 0
    assert result.stdout == "stock\n"
    assert result.stderr == "tfm run: not malleable here: built against another TensorFlow\n"


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["run", "--threads", "0", "--", "true"], 2, "--threads must be an integer from 1, not 0"),
        (["run", "--threads", "-3", "--", "true"], 2, "must be an integer from 1, not -3"),
        (["run", "--threads", "two", "--", "true"], 2, "'two' is not a valid integer"),
        (["run"], 2, "Missing argument"),
        (["run", "--mim", "2", "--", "true"], 2, "No such option"),
        (["run", "--min", "0", "--", "true"], 2, "min must be an integer from 1 to 65536, not 0"),
        (["run", "--min", "3", "--max", "2", "--", "true"], 2, "1 ≤ min ≤ preferred ≤ max, not"),
        (["run", "--preferred", "3", "--max", "2", "--", "true"], 2, "preferred 3, max 2"),
        (["run", "--priority", "1001", "--", "true"], 2, "from -1000 to 1000, not 1001"),
        (["run", "--weight", "0", "--", "true"], 2, "weight must be a number above 0"),
        (["run", "--weight", "nan", "--", "true"], 2, "weight must be a number above 0"),
        (["run", "--name", "x" * 201, "--", "true"], 2, "a string of 1 to 200 characters"),
        (["run", "--threads", "1", "--min", "1", "--", "true"], 2, "--threads sets the cores by"),
        (["run", "--threads", "1", "--no-queue", "--", "true"], 2, "give one or the other"),
        (["run", "--threads", "1", "--follow-cgroup", "--", "true"], 2, "leaves them to the cgro"),
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
    assert result.stderr.startswith(f"tfm: {name} must be an integer from 1")
    assert len(result.stderr.splitlines()) == 1


def test_following_is_0_or_1():
    env = {**os.environ, "TF_MALLEABLE_FOLLOW_CGROUP": "on"}
    result = tfm("run", "--", "true", env=env)
    assert (result.returncode, result.stdout) == (2, "")
    assert result.stderr == "tfm: TF_MALLEABLE_FOLLOW_CGROUP must be 0 or 1, not 'on'\n"


def test_help_names_the_option():
    result = tfm("run", "--help")
    assert result.returncode == 0
    assert "--threads" in result.stdout


@pytest.mark.slow
def test_ctrl_c_with_workers_parked_ends_the_program(tmp_path):
    # Interrupted inside an eager op, stock TensorFlow 2.21 itself often corrupts its heap when it
    # runs with one thread; so the program sleeps.
    script = tmp_path / "busy.py"
    script.write_text(
        "import time\nimport tensorflow as tf\nx = tf.random.normal((512, 512))\ny = x @ x\n"
        # A signal right before a sleep does not cut it short.
        "print('go', flush=True)\nwhile True: time.sleep(0.05)\n"
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
    _, errors = process.communicate(timeout=DEADLINE)
    # What Python makes of a KeyboardInterrupt that nobody catches.
    assert process.returncode == -signal.SIGINT
    assert errors.rstrip().endswith("KeyboardInterrupt")


@pytest.mark.parametrize("how", ["option", "variable"])
def test_where_a_controller_is_required_nothing_runs_alone(tmp_path, how):
    socket = tmp_path / "controller.sock"
    option = ["--require-controller"] if how == "option" else []
    env = {**os.environ, **({} if option else {"TF_MALLEABLE_REQUIRE_CONTROLLER": "1"})}
    result = tfm("run", *option, "--socket", str(socket), "--", "echo", "here", env=env)
    assert (result.returncode, result.stdout) == (1, "")
    assert result.stderr == (
        f"tfm: no controller answers at {socket}, and a controller is required here\n"
    )
    result = tfm("run", *option, "--threads", "1", "--", "echo", "here", env=env)
    assert (result.returncode, result.stdout) == (2, "")


def test_a_site_requires_a_controller_with_a_file(tmp_path, monkeypatch):
    site = tmp_path / "require-controller"
    monkeypatch.delenv(requirement.VARIABLE, raising=False)
    monkeypatch.setattr(requirement, "SITE_FILE", str(site))
    assert not requirement.is_controller_required()
    site.touch()
    assert requirement.is_controller_required()
    monkeypatch.setenv(requirement.VARIABLE, "0")
    assert requirement.is_controller_required()
    monkeypatch.setenv(requirement.VARIABLE, "yes")
    with pytest.raises(ValueError, match="must be 0 or 1, not 'yes'"):
        requirement.is_controller_required()


def test_more_threads_than_there_can_be_is_all_of_them():
    show = (sys.executable, "-c", "import tf_malleable as t; print(t.get_threads().intra)")
    env = {**os.environ, "TF_MALLEABLE_MAX_THREADS": "2"}
    result = tfm("run", "--threads", "4", "--", *show, env=env)
    assert (result.returncode, result.stdout) == (0, "2\n")
    assert result.stderr == "tfm: --threads is 2, not 4: a process can have no more threads here\n"
    result = tfm("run", "--", *show, env={**env, "TF_MALLEABLE_THREADS": "4"})
    assert (result.returncode, result.stdout) == (0, "2\n")
