# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""The first process of a node: it starts the node's daemons, and again when they end."""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path

from real_kubernetes.daemon import ClusterError, Daemon, run
from real_kubernetes.node import CONTAINERD, KERNEL, PRIVATE

# Seconds between two starts.
_PAUSE = 1.0


def main() -> int:
    """Run the node that the first argument describes in JSON."""
    settings: dict[str, str] = json.loads(sys.argv[1])
    try:
        _run(settings)
    except ClusterError as error:
        print(error, file=sys.stderr)
    return 1


def _run(settings: dict[str, str]) -> None:
    folder, binaries = Path(settings["folder"]), Path(settings["binaries"])
    logs, name = Path(settings["logs"]), settings["name"]
    for place in PRIVATE:
        run("mount --bind", folder / place.lstrip("/"), place)
    for path, value in KERNEL.items():
        # What it reads is as it wants it, and this machine stays as it is.
        own = folder / path.replace("/", ".")
        own.write_text(f"{value}\n")
        run("mount --bind", own, Path("/proc/sys", path))
    if settings["cpus"]:
        _pretend_to_have(int(settings["cpus"]), folder)
    (folder / "born").touch()
    while not (folder / "connected").exists():
        time.sleep(0.02)
    Path("/proc/sys/net/ipv4/ip_forward").write_text("1")
    containerd = Daemon(
        f"{name}-containerd", ["containerd", f"--config={folder}/containerd.toml"], logs
    )
    socket = Path(CONTAINERD.removeprefix("unix://"))
    containerd.wait_until(socket.exists, "containerd does not listen")
    run("ctr --namespace=k8s.io images import", settings["images"])
    kubelet: list[str | Path] = [
        binaries / "kubelet",
        f"--config={folder}/kubelet.json",
        f"--kubeconfig={settings['kubeconfig']}",
        f"--hostname-override={name}",
        # Or else it would ask for the name's address.
        f"--node-ip={settings['address']}",
    ]
    _supervise(
        containerd,
        Daemon(f"{name}-kubelet", kubelet, logs),
        Daemon(
            f"{name}-kube-proxy",
            [binaries / "kube-proxy", f"--config={folder}/kube-proxy.json"],
            logs,
        ),
    )


def _pretend_to_have(cpus: int, folder: Path) -> None:
    """Have the kubelet, which reads /sys, count so many CPUs.

    They belong to no socket and no NUMA node, or else the kubelet would want them in its cpusets.
    """
    own = folder / "cpus"
    for number in range(cpus):
        (own / f"cpu{number}").mkdir(parents=True)
    (own / "online").write_text(Path("/sys/devices/system/cpu/online").read_text())
    nodes = folder / "numa-nodes"
    nodes.mkdir()
    run("mount --bind", nodes, "/sys/devices/system/node")
    run("mount --bind", own, "/sys/devices/system/cpu")


def _supervise(*daemons: Daemon) -> None:
    """Start again what ends, for ever, and reap orphans."""
    while True:
        ended, _ = os.wait()
        for daemon in daemons:
            if daemon.pid == ended:
                print(f"{daemon.name} has ended and is started again", file=sys.stderr, flush=True)
                time.sleep(_PAUSE)
                daemon.restart()


if __name__ == "__main__":
    sys.exit(main())
