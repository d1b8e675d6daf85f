#!/usr/bin/env python3
# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Run COMMAND, by default `make test-cluster`, with a real Kubernetes of its own.

COMMAND gets the cluster's KUBECONFIG, and in TFM_TEST_IMAGE an image of this Python environment.
Both exist only in COMMAND's network namespace, which has no way out. Afterwards nothing is left.
CONTRIBUTING.md says where to get the binaries.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from types import FrameType
from typing import Any, NoReturn

from make_test_image import ImageError, empty_folders, volumes
from real_kubernetes import addresses, control_plane, image, node
from real_kubernetes.cgroups import ClusterCgroups
from real_kubernetes.control_plane import ControlPlane
from real_kubernetes.credentials import Credentials
from real_kubernetes.daemon import ClusterError
from real_kubernetes.init import run_as_init
from real_kubernetes.node import Node

ROOT = Path(__file__).resolve().parent.parent
BINARIES = (*control_plane.NAMES, *node.NAMES)
# Programs of this machine, and the Debian packages that have them.
PROGRAMS = {
    "containerd": "containerd",
    "ctr": "containerd",
    "ip": "iproute2",
    "iptables": "iptables",
    "mount": "mount",
    "nsenter": "util-linux",
    "openssl": "openssl",
    "runc": "runc",
    "setpriv": "util-linux",
    "unshare": "util-linux",
    "/usr/lib/cni/host-local": "containernetworking-plugins",
    "/usr/lib/cni/ptp": "containernetworking-plugins",
}
_ENDING = (signal.SIGTERM, signal.SIGHUP)
# Set where all namespaces are entered.
_INSIDE = "TFM_REAL_CLUSTER_FOLDER"


def check(binaries: Path) -> None:
    """Check that a cluster can be started.

    Raises:
        ClusterError: It cannot; what is missing is named.
    """
    missing = [name for name in BINARIES if not os.access(binaries / name, os.X_OK)]
    if missing:
        raise ClusterError(
            f"{binaries} does not have {_listed(missing)}; CONTRIBUTING.md says how to get them"
        )
    packages = {package for name, package in PROGRAMS.items() if shutil.which(name) is None}
    if packages:
        words = " ".join(sorted(packages))
        raise ClusterError(f"programs are missing: apt-get install --no-install-recommends {words}")
    if os.geteuid() != 0:
        raise ClusterError("namespaces, cgroups and containers need root")


def _listed(names: Sequence[str]) -> str:
    *most, last = names
    return f"{', '.join(most)} and {last}" if most else last


class _Around:
    """What is outside of the cluster's namespaces: a folder and cgroups, and their removal."""

    def __init__(self, nodes: int) -> None:
        prefix = f"tf_malleable-kubernetes-{os.getpid()}-"
        self.folder = Path(tempfile.mkdtemp(prefix=prefix))
        self._names = [node.name_of(number) for number in range(1, nodes + 1)]
        self._interrupts = 0

    def run(self, words: Sequence[str]) -> int:
        """Run this program again with other arguments in new namespaces; return its code.

        Raises:
            ClusterError: Something cannot be made or removed.
        """
        cgroups = None
        process = None
        for number in _ENDING:
            signal.signal(number, _end)
        signal.signal(signal.SIGINT, self._interrupt)
        try:
            cgroups = ClusterCgroups(self.folder.name, self._names)
            process = subprocess.Popen(
                [
                    *("setpriv", "--pdeathsig", "KILL"),
                    *("unshare", "--mount", "--net", "--pid"),
                    *("--fork", "--kill-child", "--mount-proc"),
                    *(sys.executable, __file__, *words),
                ],
                env={**os.environ, _INSIDE: str(self.folder)},
            )
            while process.poll() is None and self._interrupts < 2:
                time.sleep(0.05)
            return 130 if process.returncode is None else process.returncode
        finally:
            if process is not None:
                _kill_with_children(process)
            if cgroups is not None:
                cgroups.remove()
            shutil.rmtree(self.folder)

    def _interrupt(self, number: int, frame: FrameType | None) -> None:
        """Count an interrupt: COMMAND ends by the first, which it gets, too."""
        self._interrupts += 1


def _kill_with_children(process: subprocess.Popen[bytes]) -> None:
    """Kill `unshare` and its PID namespace; return once all processes in that have ended.

    The kernel kills them with the namespace's first process, which ends last. `unshare` waits for
    that one, unless it is killed itself.
    """
    children = Path(f"/proc/{process.pid}/task/{process.pid}/children")
    if process.poll() is None and (first := children.read_text().split()):
        os.kill(int(first[0]), signal.SIGKILL)
    else:
        process.kill()
    process.wait()


def _end(number: int, frame: FrameType | None) -> NoReturn:
    for each in (*_ENDING, signal.SIGINT):
        signal.signal(each, signal.SIG_IGN)
    sys.exit(128 + number)


class _Cluster:
    """The control plane and the nodes, in the namespaces that were made for them."""

    def __init__(
        self, folder: Path, binaries: Path, logs: Path, nodes: int, kubelet: dict[str, Any]
    ) -> None:
        self._folder, self._logs = folder, logs
        self._credentials = Credentials(folder)
        self._control = ControlPlane(binaries, folder, logs, self._credentials)
        cgroup = f"/{folder.name}"
        self._nodes = [
            Node(
                number,
                binaries,
                folder / node.name_of(number),
                logs,
                self._credentials,
                f"{cgroup}/{node.name_of(number)}",
                kubelet,
            )
            for number in range(1, nodes + 1)
        ]

    def start(self, cpus: int | None) -> dict[str, str]:
        """Start all; return the environment of the cluster's users.

        Args:
            cpus: How many CPUs each node says that it has; None for this machine's number.

        Raises:
            ClusterError: Something does not start.
        """
        programs = Path(sys.prefix, "bin")
        archive = self._folder / "images.tar"
        image.write_archive(archive, empty_folders(), programs)
        mounts = image.mounts(volumes())
        self._control.start()
        _say(f"the API server is ready, {self._control.version()}")
        started = [each.start(archive, mounts, cpus) for each in self._nodes]
        for each, machine in zip(self._nodes, started, strict=True):
            self._control.wait_for_node(each.name, machine)
            _say(f"{each.name} is ready")
        return {"KUBECONFIG": str(self._control.kubeconfig), "TFM_TEST_IMAGE": image.NAME}


def _inside(folder: Path, arguments: argparse.Namespace, command: Sequence[str]) -> int:
    logs: Path = arguments.logs
    try:
        cluster = _Cluster(folder, arguments.binaries, logs, arguments.nodes, arguments.kubelet)
        environment = cluster.start(arguments.cpus)
        path = f"{arguments.binaries}{os.pathsep}{os.environ['PATH']}"
        kept = {name: value for name, value in os.environ.items() if name != _INSIDE}
        _say(f"KUBECONFIG={environment['KUBECONFIG']} {' '.join(command)}")
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        done = subprocess.run(
            command,
            env={**kept, **environment, "PATH": path},
            check=False,
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
        )
    except (ClusterError, ImageError) as error:
        print(f"real_cluster: {error}", file=sys.stderr)
        return 1
    except OSError as error:
        print(f"real_cluster: {error.filename or 'a file'}: {error.strerror}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130
    return done.returncode if done.returncode >= 0 else 128 - done.returncode


def _say(line: str) -> None:
    print(f"real_cluster: {line}", file=sys.stderr, flush=True)


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        self.exit(2, f"{self.prog}: {message}\n")


def _number(text: str) -> int:
    if not (text.isdecimal() and 1 <= int(text) <= addresses.MOST_NODES):
        raise argparse.ArgumentTypeError(f"must be from 1 to {addresses.MOST_NODES}")
    return int(text)


def _settings(text: str) -> dict[str, Any]:
    try:
        found = json.loads(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(f"is no JSON: {error}") from None
    if not isinstance(found, dict):
        raise argparse.ArgumentTypeError("must be an object in JSON")
    return found


def main() -> int:
    """Run the command line."""
    parser = _Parser(
        description=__doc__, usage="%(prog)s [-h] --binaries FOLDER [options] [-- COMMAND …]"
    )
    folder = lambda text: Path(text).absolute()  # noqa: E731
    parser.add_argument(
        "--binaries",
        required=True,
        type=folder,
        metavar="FOLDER",
        help=f"the folder of {_listed(BINARIES)}",
    )
    parser.add_argument("--nodes", type=_number, default=3, metavar="N", help="[default: 3]")
    parser.add_argument(
        "--cpus",
        type=_number,
        metavar="N",
        help="how many CPUs each node says that it has [default: this machine's]",
    )
    parser.add_argument(
        "--kubelet",
        type=_settings,
        default={},
        metavar="JSON",
        help='more of each node\'s KubeletConfiguration, such as {"cpuManagerPolicy": "static"}',
    )
    parser.add_argument(
        "--logs",
        type=folder,
        default=ROOT / "build" / "real-cluster",
        metavar="FOLDER",
        help="of the cluster's programs; deleted before [default: build/real-cluster]",
    )
    own, command = sys.argv[1:], ["make", "-C", str(ROOT), "test-cluster"]
    if "--" in own:
        split = own.index("--")
        own, command = own[:split], own[split + 1 :]
    arguments = parser.parse_args(own)
    if not command:
        parser.error("give a command after --, or no --")
    if _INSIDE in os.environ:
        inside = Path(os.environ[_INSIDE])
        run_as_init(lambda: _inside(inside, arguments, command))
    try:
        check(arguments.binaries)
        shutil.rmtree(arguments.logs, ignore_errors=True)
        arguments.logs.mkdir(parents=True)
        return _Around(arguments.nodes).run(sys.argv[1:])
    except ClusterError as error:
        print(f"real_cluster: {error}", file=sys.stderr)
        return 1


if __name__ == "__main__":
    sys.exit(main())
