# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""A node: containerd, a kubelet and kube-proxy in namespaces of their own."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from real_kubernetes import addresses
from real_kubernetes.credentials import Credentials
from real_kubernetes.daemon import Daemon, run
from real_kubernetes.image import PAUSE

NAMES = ("kubelet", "kube-proxy")
# Each node has these folders of a machine for itself.
PRIVATE = ("/run", "/var/lib", "/var/log")
# What a kubelet sets for the whole machine unless it is so already.
KERNEL = {
    "kernel/keys/root_maxbytes": "25000000",
    "kernel/keys/root_maxkeys": "1000000",
    "kernel/panic": "10",
    "kernel/panic_on_oops": "1",
    "vm/overcommit_memory": "1",
    "vm/panic_on_oom": "0",
}
CONTAINERD = "unix:///run/containerd/containerd.sock"
_PLUGINS = Path("/usr/lib/cni")
_DISK = ("imagefs.available", "nodefs.available", "nodefs.inodesFree")


class Node:
    """One node of the cluster.

    Args:
        number: Its number; the first has 1.
        binaries: The folder of NAMES.
        folder: A folder for its files, which it creates.
        logs: An existing folder for its logs.
        credentials: To which its users are added.
        cgroup: The path of its cgroup below the hierarchies' mount points.
        kubelet: More of its KubeletConfiguration, which goes first.

    Attributes:
        name: Its name in the cluster.
    """

    def __init__(
        self,
        number: int,
        binaries: Path,
        folder: Path,
        logs: Path,
        credentials: Credentials,
        cgroup: str,
        kubelet: Mapping[str, Any],
    ) -> None:
        self.name = name_of(number)
        self._number, self._binaries, self._folder, self._logs = number, binaries, folder, logs
        self._address = addresses.of_node(number)
        self._pods = addresses.pods_of_node(number)
        self._kubeconfig = credentials.kubeconfig(f"system:node:{self.name}", "system:nodes")
        for place in PRIVATE:
            (folder / place.lstrip("/")).mkdir(parents=True)
        # Its rights are those of this name.
        proxy = credentials.kubeconfig("system:kube-proxy")
        self._write("kubelet.json", {**self._kubelet(cgroup), **kubelet})
        self._write("kube-proxy.json", self._proxy(proxy))
        self._write("cni/10-pods.conflist", self._network())

    def start(self, archive: Path, mounts: list[dict[str, Any]], cpus: int | None) -> Daemon:
        """Start it; return its first process. It is not yet ready then.

        Args:
            archive: The images that its containers may use.
            mounts: What all containers mount of this machine, as in an OCI runtime's config.json.
            cpus: How many CPUs it says that it has; None for this machine's number.

        Raises:
            ClusterError: Its network cannot be made.
        """
        spec = json.loads(run("ctr oci spec"))
        spec["mounts"] += mounts
        self._write("container.json", spec)
        (self._folder / "containerd.toml").write_text(self._containerd())
        settings = {
            "binaries": str(self._binaries),
            "cpus": str(cpus or ""),
            "folder": str(self._folder),
            "images": str(archive),
            "kubeconfig": str(self._kubeconfig),
            "logs": str(self._logs),
            "name": self.name,
            "address": self._address,
        }
        words = ["unshare", "--mount", "--net", "--pid", "--fork", "--kill-child", "--mount-proc"]
        tools = Path(__file__).resolve().parent.parent
        program = ["env", f"PYTHONPATH={tools}", sys.executable, "-m", "real_kubernetes.node_main"]
        machine = Daemon(self.name, [*words, *program, json.dumps(settings)], self._logs)
        machine.wait_until((self._folder / "born").exists, f"{self.name} does not start")
        self._connect(machine.pid)
        return machine

    def _connect(self, process: int) -> None:
        """Give it an interface on the bridge, and its pods a route."""
        inside = f"nsenter --net --target={process} ip"
        run(f"ip link add {self.name} type veth peer name eth0 netns {process}")
        run(f"ip link set {self.name} master nodes up")
        run(f"{inside} link set lo up")
        run(f"{inside} address add {self._address}/24 dev eth0")
        run(f"{inside} link set eth0 up")
        run(f"{inside} route add default via {addresses.CONTROL}")
        run(f"ip route add {self._pods} via {self._address}")
        (self._folder / "connected").touch()

    def _write(self, name: str, content: dict[str, Any]) -> None:
        path = self._folder / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(json.dumps(content, indent=2))

    def _kubelet(self, cgroup: str) -> dict[str, Any]:
        return {
            "apiVersion": "kubelet.config.k8s.io/v1beta1",
            "kind": "KubeletConfiguration",
            "address": self._address,
            # Who is in this network is the administrator.
            "authentication": {"anonymous": {"enabled": True}, "webhook": {"enabled": False}},
            "authorization": {"mode": "AlwaysAllow"},
            "cgroupDriver": "cgroupfs",
            "cgroupRoot": cgroup,
            "containerRuntimeEndpoint": CONTAINERD,
            # This machine's disk is shared with others, whom a kubelet cannot evict.
            "evictionHard": dict.fromkeys(_DISK, "0%"),
            "failCgroupV1": False,
            "failSwapOn": False,
            "imageGCHighThresholdPercent": 100,
            "podCIDR": self._pods,
            "readOnlyPort": 0,
            # There is no name server: pods are not to wait for this machine's.
            "resolvConf": "",
            "volumePluginDir": "/var/lib/kubelet/plugins",
        }

    def _proxy(self, kubeconfig: Path) -> dict[str, Any]:
        return {
            "apiVersion": "kubeproxy.config.k8s.io/v1alpha1",
            "kind": "KubeProxyConfiguration",
            "clientConnection": {"kubeconfig": str(kubeconfig)},
            # These are the whole machine's.
            "conntrack": {"maxPerCore": 0, "min": 0},
            "hostnameOverride": self.name,
            "mode": "iptables",
        }

    def _network(self) -> dict[str, Any]:
        pods = {
            "type": "host-local",
            "ranges": [[{"subnet": self._pods}]],
            "routes": [{"dst": "0.0.0.0/0"}],
        }
        return {
            "cniVersion": "0.4.0",
            "name": "pods",
            # Not a bridge: what a pod sends to itself by a service would pass it unseen.
            "plugins": [{"type": "ptp", "ipMasq": False, "ipam": pods}],
        }

    def _containerd(self) -> str:
        # Without CAP_SYS_RESOURCE, no process can be made less likely to be killed than this one.
        runtime = '[plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]'
        return f"""version = 2
[plugins."io.containerd.grpc.v1.cri"]
sandbox_image = "{PAUSE}"
restrict_oom_score_adj = true
[plugins."io.containerd.grpc.v1.cri".cni]
bin_dir = "{_PLUGINS}"
conf_dir = "{self._folder}/cni"
{runtime}
runtime_type = "io.containerd.runc.v2"
base_runtime_spec = "{self._folder}/container.json"
"""


def name_of(number: int) -> str:
    """Return the name of the node with a number."""
    return f"node-{number}"
