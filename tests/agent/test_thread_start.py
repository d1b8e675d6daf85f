# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""The agent lives in somebody else's program, and this one must not notice."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest

from tests.support.jobs import ALL, FIRST, LAST, PRELOAD, Job
from tf_malleable.api.schema.job_request import JobRequest
from tf_malleable.api.schema.join import JOIN, Join

WAITING = "import sys, tf_malleable\nprint('ready', flush=True)\nsys.stdin.readline()\n"

FORKING = """
import os, sys, threading
import tf_malleable

def child(number, inherited):
    names = [thread.name for thread in threading.enumerate()]
    good = sum(range(1000)) == 499500 and names.count("tf_malleable") == 1
    return 0 if good and not inherited & sockets() else 1

def sockets():
    return {link for fd in os.listdir("/proc/self/fd") if "socket:" in (link := target(fd))}

def target(fd):
    try:
        return os.readlink(f"/proc/self/fd/{fd}")
    except OSError:
        return ""

print("ready", flush=True)
sys.stdin.readline()
codes = set()
for number in range(60):
    inherited = sockets()
    pid = os.fork()
    if pid == 0:
        code = child(number, inherited)
        if number % 3:  # By way of the interpreter's end, too.
            sys.exit(code)
        os._exit(code)
    codes.add(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
print(codes, flush=True)
sys.stdin.readline()
"""

MULTIPROCESSING = """
import multiprocessing, sys
import tf_malleable

if __name__ == "__main__":
    print("ready", flush=True)
    sys.stdin.readline()
    with multiprocessing.get_context("fork").Pool(3) as pool:
        print(sum(pool.map(abs, range(100))), flush=True)
    sys.stdin.readline()
"""


UNBLOCKABLE = {signal.SIGKILL, signal.SIGSTOP}


def status_of_threads(pid: int) -> dict[int, dict[str, str]]:
    """Return what the kernel says of each thread, by number."""
    found = {}
    for task in Path(f"/proc/{pid}/task").iterdir():
        with suppress(FileNotFoundError, ProcessLookupError):  # It may end in between.
            lines = (task / "status").read_text().splitlines()
            found[int(task.name)] = dict(line.split(":\t", 1) for line in lines)
    return found


def test_it_is_one_thread_that_takes_no_signals(fake):
    fake.grant(ALL)
    with Job(WAITING, None) as alone, Job(WAITING, fake.path) as job:
        alone.hear()
        job.hear()
        fake.wait(lambda: fake.heard("progress"))
        (before,) = status_of_threads(alone.pid).values()
        threads = status_of_threads(job.pid)
        main = threads.pop(job.pid)
        (agent,) = threads.values()
    for mask in ("SigBlk", "SigIgn", "SigCgt"):
        # Signals from 32 on are the C library's, which uses them for threads.
        assert int(main[mask], 16) % 2**31 == int(before[mask], 16) % 2**31
    blocked = int(agent["SigBlk"], 16)
    assert all(blocked >> number - 1 & 1 for number in signal.valid_signals() - UNBLOCKABLE)


def test_signals_are_the_program_s(fake):
    program = (
        "import signal, sys, time, tf_malleable\n"
        "signal.signal(signal.SIGUSR1, lambda *_: print('usr1', flush=True))\n"
        "print('ready', flush=True)\n"
        # A signal right before a sleep does not cut it short.
        "while True: time.sleep(0.05)\n"
    )
    fake.grant(ALL)
    with Job(program, fake.path) as job:
        job.hear()
        fake.wait(lambda: fake.heard("progress"))
        for _ in range(20):
            job.send(signal.SIGUSR1)
            assert job.hear() == "usr1"
        job.send(signal.SIGINT)
        code, out, err = job.end()
    assert (code, out) == (-signal.SIGINT, "")
    assert err.endswith("KeyboardInterrupt\n")


@pytest.mark.slow
def test_forked_children_do_not_disturb_their_parent_s_agent(fake):
    fake.grant(FIRST)
    with Job(FORKING, fake.path) as job:
        job.hear()
        fake.wait(lambda: fake.heard("progress"))
        job.tell()
        for cpus in (FIRST, LAST) * 20:
            fake.wait_for_acknowledgement(fake.grant(cpus))
        assert job.hear() == "{0}"
        fake.wait_for_acknowledgement(fake.grant(LAST))
        assert job.end("\n") == (0, "", "")
    assert [heard.pid for heard in fake.heard("jobs")].count(job.pid) == 1


def test_a_forked_child_follows_later_grants(fake):
    program = (
        "import os, sys, tf_malleable\n"
        "print('ready', flush=True)\n"
        "sys.stdin.readline()\n"
        "if os.fork():\n"
        "    os._exit(os.waitstatus_to_exitcode(os.wait()[1]))\n"
        "print(os.getpid(), flush=True)\n"
        "while sys.stdin.readline().strip():\n"
        "    print(sorted(os.sched_getaffinity(0)), flush=True)\n"
    )
    fake.grant(FIRST)
    with Job(program, fake.path) as job:
        job.hear()
        fake.wait(lambda: fake.heard("progress"))
        child = int(job.ask())

        def has_acknowledged(serial: int) -> bool:
            said = fake.heard("acknowledgements")
            return {job.pid, child} <= {each.pid for each in said if each.body["serial"] == serial}

        for cpus in (LAST, ALL, FIRST):
            serial = fake.grant(cpus)
            fake.wait(lambda serial=serial: has_acknowledged(serial))
            assert job.ask("cpus") == str(sorted(cpus))
        assert job.end("\n") == (0, "", "")


def test_multiprocessing(fake):
    fake.grant(FIRST)
    with Job(MULTIPROCESSING, fake.path) as job:
        job.hear()
        fake.wait(lambda: fake.heard("progress"))
        assert job.ask() == "4950"
        fake.wait_for_acknowledgement(fake.grant(LAST))
        assert job.end("\n") == (0, "", "")


def test_a_forked_child_that_joins_is_connected_once(fake):
    program = (
        "import os, sys, tf_malleable as tfm\n"
        "print('ready', flush=True)\n"
        "sys.stdin.readline()\n"
        "if os.fork() == 0:\n"
        "    tfm.join(socket=sys.argv[1])\n"
        "    print(os.getpid(), flush=True)\n"
        "    sys.stdin.readline()\n"
        "else:\n"
        "    os.wait()\n"
    )
    fake.grant(FIRST)
    with Job(program, fake.path, str(fake.path)) as job:
        job.hear()
        fake.wait(lambda: fake.heard("progress"))
        child = int(job.ask())
        fake.wait(lambda: child in {heard.pid for heard in fake.heard("acknowledgements")})
        assert sorted(heard.pid for heard in fake.heard("jobs")) == sorted((job.pid, child))
        assert job.end("\n") == (0, "", "")


def test_the_program_s_random_numbers_are_its_own(fake):
    program = (
        "import random, sys\n"
        "random.seed(1)\n"
        "before = random.getstate()\n"
        "import tf_malleable\n"
        "sys.stdin.readline()\n"
        "print(random.getstate() == before)\n"
    )
    fake.answer_with("jobs", b"")
    with Job(program, fake.path) as job:
        fake.wait(lambda: len(fake.heard("jobs")) > 3)
        assert job.end("\n") == (0, "True\n", "")


def test_where_no_thread_can_be_started_there_is_no_agent(fake):
    program = (
        "import threading\n"
        "def refuse(self):\n"
        "    raise RuntimeError('can not start new thread')\n"
        "threading.Thread.start = refuse\n"
        "import tf_malleable\n"
        "print('computes')\n"
    )
    with Job(program, fake.path) as job:
        assert job.end() == (0, "computes\n", "")
    assert not fake.state.heard


ENDINGS = {
    "return": ("", 0, ""),
    "exit": ("sys.exit(3)", 3, ""),
    "error": ("raise SystemExit('bad')", 1, "bad\n"),
    "threads": ("threading.Thread(target=time.sleep, args=(0.3,)).start()", 0, ""),
    "hard": ("os._exit(4)", 4, ""),
    "busy": ("threading.Thread(target=busy, daemon=True).start()", 0, ""),
}


@pytest.mark.slow
@pytest.mark.parametrize("way", ENDINGS)
@pytest.mark.parametrize("state", ["connected", "alone", "silent"])
def test_the_interpreter_ends_as_without_us(fake, way, state):
    statement, code, err = ENDINGS[way]
    program = (
        "import os, sys, threading, time, tf_malleable\n"
        "def busy():\n"
        "    while True: pass\n"
        f"print('ready', flush=True)\nsys.stdin.readline()\n{statement}\n"
    )
    fake.grant(ALL)
    if state == "alone":
        fake.close()
    elif state == "silent":
        fake.answer_with("progress", lambda handler: handler.connection.recv(1))
    # Python's development mode would tell of anything left open.
    with Job(program, fake.path, PYTHONDEVMODE="1") as job:
        job.hear()
        if state != "alone":
            fake.wait(lambda: fake.heard("progress"))
        begin = os.times().elapsed
        assert job.end("\n") == (code, "", err)
        assert os.times().elapsed - begin < 10
    assert len(fake.heard("jobs")) == (0 if state == "alone" else 1)


def test_without_a_controller_nothing_of_it_is_loaded():
    program = (
        "import sys, tf_malleable as tfm\n"
        "tfm.progress(3, 10)\n"
        "heavy = {'http.client', 'socket', 'selectors', 'msgspec', 'aiohttp', 'click', 'rich'}\n"
        "print(heavy & set(sys.modules))\n"
    )
    with Job(program, None) as job:
        assert job.end() == (0, "set()\n", "")


def test_with_a_controller_only_the_standard_library_is(fake):
    program = (
        "import sys, tf_malleable\n"
        "print('ready', flush=True)\nsys.stdin.readline()\n"
        "found = {name.partition('.')[0] for name in sys.modules}\n"
        "print(found & {'msgspec', 'aiohttp', 'click', 'rich', 'psutil', 'numpy'})\n"
    )
    fake.grant(ALL)
    with Job(program, fake.path) as job:
        job.hear()
        fake.wait(lambda: fake.heard("progress"))
        assert job.end("\n") == (0, "set()\n", "")


def test_a_garbage_variable_is_one_sentence():
    with Job("import tf_malleable", None, **{JOIN: "lots"}) as job:
        code, out, err = job.end()
    assert (code, out) == (1, "")
    sentence = "ValueError: TF_MALLEABLE_JOIN must be JSON as 'tfm run' writes it, not 'lots'"
    assert err.splitlines()[-1] == sentence


def test_a_script_under_tfm_run_then_runs_on_stock(tmp_path):
    (tmp_path / "tensorflow.py").write_text("print('stock')")
    paths = os.pathsep.join([str(PRELOAD), str(tmp_path)])
    with Job("import tensorflow", None, PYTHONPATH=paths, **{JOIN: "{}"}) as job:
        code, out, err = job.end()
    assert (code, out) == (0, "stock\n")
    assert err.startswith("tfm run: not malleable here: TF_MALLEABLE_JOIN must be JSON")
    assert len(err.splitlines()) == 1


def test_the_import_hook_hides_no_other(tmp_path):
    (tmp_path / "tensorflow.py").touch()
    program = (
        "import sys\n"
        "class Recording:\n"
        "    def find_spec(self, name, path=None, target=None):\n"
        "        if name == 'tensorflow':\n"
        "            print('asked')\n"
        "sys.meta_path.insert(1, Recording())\n"
        "import tensorflow\n"
        # As Python 2.7 and 3.3 call it.
        "print(sys.meta_path[0].find_module('tensorflow', None))\n"
    )
    paths = os.pathsep.join([str(PRELOAD), str(tmp_path)])
    # With such a variable tf_malleable itself does not look for tensorflow.
    with Job(program, None, PYTHONPATH=paths, **{JOIN: "{}"}) as job:
        code, out, err = job.end()
    assert (code, out) == (0, "asked\nNone\n")
    assert len(err.splitlines()) == 1


LOOK_UP = """
import importlib.util, sys
spec = importlib.util.find_spec("tensorflow")
"""
# As importlib's documentation does it.
IMPORT_LAZILY = """
spec.loader = importlib.util.LazyLoader(spec.loader)
module = importlib.util.module_from_spec(spec)
sys.modules["tensorflow"] = module
spec.loader.exec_module(module)
module.part
"""


@pytest.mark.parametrize(
    ("then", "times"),
    [("", 0), ("import tensorflow", 1), (IMPORT_LAZILY, 1)],
    ids=["nothing", "import", "lazily"],
)
def test_tf_malleable_is_loaded_for_an_import_and_not_for_a_look_up(tmp_path, then, times):
    folder = tmp_path / "tensorflow"
    folder.mkdir()
    (folder / "__init__.py").write_text("import tensorflow.part as part")
    (folder / "part.py").touch()
    paths = os.pathsep.join([str(PRELOAD), str(tmp_path)])
    with Job(LOOK_UP + then, None, PYTHONPATH=paths) as job:
        code, _, err = job.end()
    assert code == 0
    # As this tensorflow has no version, that it is loaded can be read.
    assert err.count("tfm run: not malleable here: cannot tell which TensorFlow") == times


def test_the_command_line_is_no_job(fake):
    tfm = Path(sys.executable).parent / "tfm"
    join = Join(str(fake.path), JobRequest("n")).encode()
    subprocess.run(
        [tfm, "--version"], env={**os.environ, JOIN: join}, check=True, capture_output=True
    )
    assert not fake.state.heard
