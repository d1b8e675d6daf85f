# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""tools/real_cluster.py, with stand-ins for the binaries: what it starts, and what it leaves."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pytest
from real_cluster import BINARIES, check
from real_kubernetes.daemon import ClusterError

from tests.support import ROOT
from tests.support.controllers import wait_for

pytestmark = pytest.mark.slow
TOOL = ROOT / "tools" / "real_cluster.py"
PATIENCE = 120.0
# What a stand-in does: all of them but kubectl, which agrees to everything, run for ever.
STAND_IN = """#!/bin/sh
[ "$1" = --version ] && echo Kubernetes v1.0.0 && exit
exec sleep 100000
"""


@pytest.fixture
def binaries(tmp_path):
    """Stand-ins for all programs that the tool wants."""
    folder = tmp_path / "binaries"
    folder.mkdir()
    for name in BINARIES:
        write(folder / name, STAND_IN)
    write(folder / "kubectl", "#!/bin/sh\n")
    try:
        check(folder)
    except ClusterError as error:
        pytest.skip(str(error))
    return folder


def write(path: Path, script: str) -> None:
    path.write_text(script)
    path.chmod(0o755)


def start(binaries: Path, folder: Path, *words: str) -> subprocess.Popen[str]:
    """Start the tool, whose files are in a folder of the test's."""
    own = [f"--binaries={binaries}", f"--logs={folder / 'logs'}", "--nodes=2"]
    return subprocess.Popen(
        [sys.executable, str(TOOL), *own, *words],
        env={**os.environ, "TMPDIR": str(folder)},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )


@pytest.fixture
def place():
    """A short path, as for sockets, that is empty again when the tool has ended."""
    with tempfile.TemporaryDirectory(prefix="tfm-") as folder:
        yield Path(folder)


def left(tool: subprocess.Popen[str], place: Path) -> list[str]:
    """Return what is left of a cluster but its logs: files, cgroups, processes."""
    files = [str(path) for path in place.iterdir() if path.name != "logs"]
    begin = f"tf_malleable-kubernetes-{tool.pid}-"
    # Not by glob(), which fails if a cgroup of somebody else goes meanwhile.
    below = (Path(folder) for folder, _, _ in os.walk("/sys/fs/cgroup"))
    cgroups = [str(path) for path in below if path.name.startswith(begin)]
    return files + cgroups + processes(place)


def processes(place: Path) -> list[str]:
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            words = path.read_bytes().decode(errors="replace").replace("\0", " ")
        except OSError:
            continue
        if f"{place}/" in words:
            found.append(words)
    return found


def test_what_is_missing_is_named(tmp_path):
    done = subprocess.run(
        [sys.executable, str(TOOL), "--binaries", str(tmp_path)],
        capture_output=True,
        text=True,
        check=False,
        timeout=PATIENCE,
    )
    assert done.returncode == 1
    (line,) = done.stderr.splitlines()
    assert line.startswith(f"real_cluster: {tmp_path} does not have etcd, kube-apiserver, ")
    assert line.endswith(" and kube-proxy; CONTRIBUTING.md says how to get them")


def test_the_command_has_nodes_with_a_network_and_an_image(binaries, place):
    words = "test -f $KUBECONFIG && ip -brief link && ip route && echo $TFM_TEST_IMAGE; exit 3"
    # To the stand-in of kubectl, a node is ready before it has its images.
    log = place / "logs" / "node-1-containerd.log"
    imported = f"grep -q Name:docker.io/library/tf_malleable-test:1 {log}"
    words = f"until {imported}; do sleep 0.1; done; {words}"
    tool = start(binaries, place, "--", "sh", "-c", words)
    output, errors = tool.communicate(timeout=PATIENCE)
    assert tool.returncode == 3, errors
    assert "node-2 is ready" in errors
    assert "10.98.2.0/24 via 10.97.0.12 dev nodes" in output
    assert output.splitlines()[-1] == "docker.io/library/tf_malleable-test:1"
    assert left(tool, place) == []


def test_a_kubelet_has_what_is_set_for_it(binaries, place):
    words = 'cat "$(dirname $KUBECONFIG)"/node-*/kubelet.json'
    setting = '{"cpuManagerPolicy": "static", "podCIDR": "10.1.1.0/24"}'
    tool = start(binaries, place, "--kubelet", setting, "--nodes", "1", "--", "sh", "-c", words)
    output, errors = tool.communicate(timeout=PATIENCE)
    assert tool.returncode == 0, errors
    found = json.loads(output)
    assert (found["cpuManagerPolicy"], found["podCIDR"]) == ("static", "10.1.1.0/24")
    assert found["kind"] == "KubeletConfiguration"


@pytest.mark.parametrize("text", ["{", "[]"])
def test_what_is_no_setting_of_a_kubelet(tmp_path, text):
    done = subprocess.run(
        [sys.executable, str(TOOL), "--binaries", str(tmp_path), "--kubelet", text],
        capture_output=True,
        text=True,
        check=False,
        timeout=PATIENCE,
    )
    assert done.returncode == 2
    (line,) = done.stderr.splitlines()
    assert line.startswith("real_cluster.py: argument --kubelet: ")


def test_the_kernel_stays_as_it_is(binaries, place):
    setting = Path("/proc/sys/kernel/panic")
    before = setting.read_text()
    said = place / "logs" / "said"
    write(binaries / "kubelet", f"#!/bin/sh\ncat {setting} >{said}.new; mv {said}.new {said}\n")
    words = f"until test -e {said}; do sleep 0.1; done"
    tool = start(binaries, place, "--", "sh", "-c", words)
    _, errors = tool.communicate(timeout=PATIENCE)
    assert tool.returncode == 0, errors
    assert (said.read_text(), setting.read_text()) == ("10\n", before)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_a_signal_leaves_nothing(binaries, place, number):
    tool = start(binaries, place, "--", "sh", "-c", "echo begun; sleep 100000")
    assert tool.stdout.readline() == "begun\n"
    tool.send_signal(number)
    tool.communicate(timeout=PATIENCE)
    assert tool.returncode == 128 + number
    assert left(tool, place) == []


@pytest.fixture
def freezer():
    """A cgroup of version 1, whose frozen processes do not even die."""
    try:
        folder = Path(tempfile.mkdtemp(prefix="tfm-", dir="/sys/fs/cgroup/freezer"))
    except OSError:
        pytest.skip("needs the freezer of cgroup v1")
    yield folder
    (folder / "freezer.state").write_text("THAWED")
    wait_for(lambda: not (folder / "cgroup.procs").read_text())
    folder.rmdir()


def test_it_waits_for_what_it_kills(binaries, place, freezer):
    words = f"echo $$ >{freezer}/cgroup.procs; echo begun; sleep 100000; : {place}/"
    tool = start(binaries, place, "--nodes", "1", "--", "sh", "-c", words)
    assert tool.stdout.readline() == "begun\n"
    (freezer / "freezer.state").write_text("FROZEN")
    tool.send_signal(signal.SIGTERM)
    wait_for(lambda: not any("node_main" in words for words in processes(place)))
    time.sleep(0.5)
    assert tool.poll() is None
    (freezer / "freezer.state").write_text("THAWED")
    tool.communicate(timeout=PATIENCE)
    assert left(tool, place) == []


def test_a_kill_leaves_no_process(binaries, place):
    tool = start(binaries, place, "--", "sh", "-c", "echo begun; sleep 100000")
    assert tool.stdout.readline() == "begun\n"
    (folder,) = (path for path in place.iterdir() if path.name != "logs")
    tool.kill()
    # The command's output ends with the command.
    assert tool.communicate(timeout=PATIENCE)[0] == ""
    for cgroup in Path("/sys/fs/cgroup").glob(f"*/{folder.name}"):
        for child in (*cgroup.glob("node-*"), cgroup):
            child.rmdir()


def test_a_program_that_ends_is_named_with_its_last_line(binaries, place):
    write(binaries / "kube-apiserver", "#!/bin/sh\necho first; echo no such thing >&2; exit 1\n")
    write(binaries / "kubectl", "#!/bin/sh\nexit 1\n")
    tool = start(binaries, place, "--", "true")
    _, errors = tool.communicate(timeout=PATIENCE)
    log = place / "logs" / "kube-apiserver.log"
    assert (tool.returncode, errors) == (
        1,
        f"real_cluster: kube-apiserver has ended: no such thing ({log})\n",
    )
    assert left(tool, place) == []
