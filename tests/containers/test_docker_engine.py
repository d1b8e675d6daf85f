# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""tools/docker_engine.py: an engine while a command runs, and nothing of it afterwards."""

from __future__ import annotations

import os
import pty
import re
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import docker
import pytest
from docker_engine import NO_ENGINE
from dockerd import CGROUPS, DockerEngine, EngineError, answers

from tests.support import ROOT
from tests.support.containers import start_sleeper

TOOL = ROOT / "tools" / "docker_engine.py"
# For child programs that import tests.support and the tools.
PATHS = os.pathsep.join(map(str, (ROOT, ROOT / "tools")))
PATIENCE = 60.0
# Where nobody listens, whatever engine the machine has.
NOWHERE = "unix:///nowhere/docker.sock"

# What the tool runs in these tests: it says where the engine is, and what else is asked.
SAY_HOST = "import os; print(os.environ['DOCKER_HOST'], flush=True);"
# A container that heeds no SIGTERM and a frozen one, both left running.
CONTAINERS = """
import os
from tests.support.containers import start_sleeper
print(os.environ["DOCKER_HOST"], flush=True)
print(start_sleeper(os.environ["DOCKER_HOST"]).id)
frozen = start_sleeper(os.environ["DOCKER_HOST"])
frozen.pause()
print(frozen.id, flush=True)
"""


def tool(*arguments: object, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run the tool to its end, where no engine answers unless the environment names one."""
    return subprocess.run(
        [sys.executable, str(TOOL), *map(str, arguments)],
        env={**os.environ, "DOCKER_HOST": NOWHERE, **environment},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
        timeout=2 * PATIENCE,
    )


def start_tool(program: str) -> subprocess.Popen[str]:
    """Start the tool with a Python program."""
    return subprocess.Popen(
        [sys.executable, str(TOOL), "--", sys.executable, "-c", program],
        env={**os.environ, "DOCKER_HOST": NOWHERE, "PYTHONPATH": PATHS},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        text=True,
    )


def folder_of(host: str) -> Path:
    return Path(host.removeprefix("unix://")).parent


def traces(folder: Path, *containers: str) -> list[str]:
    """Return what there is of an engine and its containers."""
    found = [str(folder)] if folder.exists() else []
    mounts = Path("/proc/self/mountinfo").read_text().splitlines()
    found += [mount for mount in mounts if str(folder) in mount]
    for process in Path("/proc").glob("[0-9]*/cmdline"):
        with suppress(OSError):
            if str(folder) in process.read_text():
                found.append(process.read_text())
    for where, _, _ in os.walk(CGROUPS):
        found += [where for container in containers if container in where]
    return found


@pytest.fixture(scope="module", autouse=True)
def _can_start_engines(docker_host: str) -> None:
    if os.geteuid() != 0 or shutil.which("dockerd") is None:
        pytest.skip("an engine answers here, and none can be started")


@pytest.fixture
def folder() -> Iterator[Path]:
    """Give a folder whose path is short enough."""
    with tempfile.TemporaryDirectory(prefix="tfm-") as name:
        yield Path(name) / "engine"


def test_an_engine_that_answers_is_used_and_left_alone(folder):
    with DockerEngine(folder) as engine:
        done = tool("--", sys.executable, "-c", SAY_HOST, DOCKER_HOST=engine.host)
        assert (done.returncode, done.stdout, done.stderr) == (0, f"{engine.host}\n", "")
        assert answers(engine.host)
    assert traces(folder) == []


@pytest.mark.parametrize("code", [0, 7])
def test_else_a_private_one_runs_for_the_while(code):
    program = f"{SAY_HOST} import docker; print(docker.from_env().ping()); exit({code})"
    done = tool("--", sys.executable, "-c", program, **{NO_ENGINE: "as said before"})
    assert (done.returncode, done.stderr) == (code, "")
    host, ping = done.stdout.split()
    assert (ping, host == NOWHERE) == ("True", False)
    assert traces(folder_of(host)) == []


def test_a_commands_own_options_are_its_own():
    done = tool("--", "echo", "--install", "--", "-h")
    assert (done.returncode, done.stdout) == (0, "--install -- -h\n")


def test_sigterm_goes_to_the_command_and_all_is_removed():
    """Two containers run meanwhile."""
    program = f"import signal; signal.signal(signal.SIGTERM, lambda *_: exit(3)); {CONTAINERS}"
    with start_tool(f"{program}\nsignal.pause()") as process:
        host, *containers = (process.stdout.readline().strip() for _ in range(3))
        assert traces(folder_of(host), *containers)
        process.terminate()
        assert process.wait(PATIENCE) == 3
    assert traces(folder_of(host), *containers) == []


def test_a_command_that_is_killed_by_a_signal():
    done = tool("--", sys.executable, "-c", f"{SAY_HOST} os.kill(os.getpid(), 15)")
    assert done.returncode == 128 + signal.SIGTERM
    assert traces(folder_of(done.stdout.strip())) == []


def test_ctrl_c_reaches_the_command_once():
    program = f"""{SAY_HOST}
import signal, time
times = []
signal.signal(signal.SIGINT, lambda *_: times.append(1))
print("ready", flush=True)
while not times: time.sleep(0.1)
time.sleep(1)
print("interrupted", len(times), flush=True)
"""
    process, terminal = pty.fork()
    if process == 0:
        os.environ["DOCKER_HOST"] = NOWHERE
        os.execv(sys.executable, [sys.executable, TOOL, "--", sys.executable, "-c", program])
    said = ""
    # A terminal's end is an error.
    with open(terminal) as lines, suppress(OSError):
        for line in lines:
            said += line
            if line == "ready\n":
                os.write(terminal, b"\x03")
    assert os.waitstatus_to_exitcode(os.waitpid(process, 0)[1]) == 0
    host, *rest = said.replace("^C", "").split()
    assert rest == ["ready", "interrupted", "1"]
    assert traces(folder_of(host)) == []


def test_a_crashed_engine_leaves_nothing(folder):
    engine = DockerEngine(folder)
    engine.start()
    running, frozen = start_sleeper(engine.host), start_sleeper(engine.host)
    frozen.pause()
    addresses = [path.read_text() for path in folder.rglob("address")]
    engine.kill()
    assert not answers(engine.host)
    assert traces(folder, running.id, frozen.id)
    engine.stop()
    assert traces(folder, running.id, frozen.id) == []
    assert len(addresses) == 2
    assert not any(Path(address.removeprefix("unix://")).exists() for address in addresses)


@pytest.mark.parametrize("crash", [False, True])
@pytest.mark.parametrize("live_restore", [False, True])
def test_restart(folder, crash, live_restore):
    with DockerEngine(folder, live_restore=live_restore) as engine:
        container = start_sleeper(engine.host)
        container.reload()
        process = container.attrs["State"]["Pid"]
        if crash:
            engine.kill()
        engine.restart()
        container = docker.DockerClient(base_url=engine.host).containers.get(container.id)
        assert container.status == ("running" if live_restore else "exited")
        if live_restore:
            assert container.attrs["State"]["Pid"] == process
    assert traces(folder, container.id) == []


def test_without_dockerd_the_command_runs_and_knows_why():
    program = f"import os; print(os.environ['{NO_ENGINE}']); exit(5)"
    done = tool("--", sys.executable, "-c", program, PATH="/nowhere")
    why = "dockerd is missing: sudo apt-get install --no-install-recommends docker.io\n"
    assert (done.returncode, done.stdout, done.stderr) == (5, why, f"docker_engine: {why}")


def programs(folder: Path, *names: str) -> str:
    """Make a folder with some of the machine's programs; return it, for PATH."""
    for name in names:
        (folder / name).symlink_to(str(shutil.which(name)))
    return str(folder)


def test_a_dockerd_that_does_not_start_says_why(tmp_path, folder):
    """It misses containerd."""
    program = f"import os; print(os.environ['{NO_ENGINE}'])"
    path = programs(tmp_path, "dockerd", "umount")
    done = tool("--", sys.executable, "-c", program, PATH=path, TMPDIR=str(folder.parent))
    assert done.returncode == 0
    assert re.fullmatch("dockerd does not start here: .*containerd.*not found.*\n", done.stdout)
    assert traces(folder.parent) == [str(folder.parent)]
    assert list(folder.parent.iterdir()) == []


PYTHON = Path("/usr/bin/python3")


@pytest.mark.skipif(not PYTHON.exists(), reason="needs a Python that an ordinary user can run")
def test_an_ordinary_user_gets_no_engine():
    with tempfile.TemporaryDirectory() as name:
        Path(name).chmod(0o755)
        copy = shutil.copy2(TOOL, name)
        shutil.copy2(TOOL.with_name("dockerd.py"), name)
        done = subprocess.run(
            [str(PYTHON), copy, "--install", "--", "/bin/sh", "-c", f"echo ${NO_ENGINE}"],
            env={"PATH": os.environ["PATH"], "DOCKER_HOST": NOWHERE},
            user=65534,
            cwd="/",
            capture_output=True,
            text=True,
            check=False,
            timeout=PATIENCE,
        )
    assert (done.returncode, done.stdout) == (0, "dockerd must be run as root\n")


@pytest.mark.parametrize(
    ("rights", "why"),
    [
        ([], "dockerd needs the capability SYS_ADMIN, which root does not have here\n"),
        (
            ["SYS_ADMIN"],
            "dockerd needs writable cgroups, and there are none here\n",
        ),
    ],
)
def test_in_a_container_there_is_no_engine(docker_host, test_image, image_volumes, rights, why):
    output = docker.DockerClient(base_url=docker_host).containers.run(
        test_image,
        ["/tools/docker_engine.py", "--", "sh", "-c", f"echo ${NO_ENGINE}"],
        volumes=[*image_volumes, f"{TOOL.parent}:/tools:ro"],
        cap_add=rights,
        stderr=False,
        remove=True,
    )
    assert output.decode() == why


APT_GET = """#!/bin/sh
shift 2  # How long it waits for others.
echo "$@" >> {folder}/called
[ "$1" = update ] || {then}
"""


def test_a_missing_dockerd_is_installed_if_told(tmp_path):
    """By an apt-get of ours, which only puts dockerd there."""
    path = programs(tmp_path, "containerd", "runc", "ln", "umount")
    install = f"ln -s {shutil.which('dockerd')} {tmp_path}/dockerd"
    (tmp_path / "apt-get").write_text(APT_GET.format(folder=tmp_path, then=install))
    (tmp_path / "apt-get").chmod(0o755)
    done = tool("--install", "--", sys.executable, "-c", SAY_HOST, PATH=path)
    assert (done.returncode, done.stderr) == (0, "")
    assert traces(folder_of(done.stdout.strip())) == []
    called = (tmp_path / "called").read_text()
    assert called == "update -q\ninstall -q -y --no-install-recommends docker.io\n"


def test_an_install_that_fails_is_said(tmp_path):
    (tmp_path / "apt-get").write_text(APT_GET.format(folder=tmp_path, then="exit 100"))
    (tmp_path / "apt-get").chmod(0o755)
    done = tool("--install", "--", "/bin/sh", "-c", f"echo ${NO_ENGINE}", PATH=str(tmp_path))
    assert done.returncode == 0
    assert "apt-get install -q -y --no-install-recommends docker.io` failed\n" in done.stdout


@pytest.mark.parametrize("arguments", [[], ["--"], ["true"], ["--bogus", "--", "true"]])
def test_wrong_arguments_are_one_sentence(arguments):
    done = tool(*arguments)
    assert (done.returncode, done.stdout) == (2, "")
    assert re.fullmatch("docker_engine.py: .+\n", done.stderr)


def test_a_command_that_is_missing(folder):
    with DockerEngine(folder) as engine:
        done = tool("--", "/no/such/program", DOCKER_HOST=engine.host)
    assert done.returncode == 127
    assert done.stderr == "docker_engine: /no/such/program: No such file or directory\n"


def test_a_path_that_is_too_long_is_refused(tmp_path):
    with pytest.raises(EngineError, match="is too long for dockerd's sockets"):
        DockerEngine(tmp_path / ("x" * 70))


@pytest.mark.parametrize("host", ["tcp://127.0.0.1:1", "nonsense", "unix:///etc/passwd", NOWHERE])
def test_nothing_answers_where_there_is_no_engine(host):
    assert not answers(host)


@pytest.mark.parametrize(("ci", "outcome"), [("", "1 skipped"), ("true", "1 error")])
def test_without_an_engine_tests_are_skipped_but_fail_where_all_must_run(tmp_path, ci, outcome):
    shutil.copy2(Path(__file__).with_name("conftest.py"), tmp_path)
    (tmp_path / "test_it.py").write_text("def test_it(docker_host): pass")
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-rsE", "-p", "no:cacheprovider", str(tmp_path)],
        env={**os.environ, "PYTHONPATH": PATHS, "CI": ci, NO_ENGINE: "who knows"},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
        timeout=PATIENCE,
    )
    assert outcome in done.stdout
    assert "no Docker engine: who knows" in done.stdout
