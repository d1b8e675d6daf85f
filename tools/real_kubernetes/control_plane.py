# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""etcd, the API server, the controller manager and the scheduler."""

from __future__ import annotations

import functools
from pathlib import Path

from real_kubernetes.addresses import CONTROL, SERVICES
from real_kubernetes.credentials import Credentials
from real_kubernetes.daemon import Daemon, quietly, run

NAMES = ("etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler", "kubectl")


class ControlPlane:
    """The programs that decide, in this network namespace.

    Args:
        binaries: The folder of NAMES.
        folder: An existing folder for their files.
        logs: An existing folder for their logs.
        credentials: Credentials of a cluster whose users are all added but the control plane's own.

    Attributes:
        kubeconfig: Path of the administrator's kubeconfig.
    """

    def __init__(self, binaries: Path, folder: Path, logs: Path, credentials: Credentials) -> None:
        self._binaries, self._folder, self._logs = binaries, folder, logs
        self._credentials = credentials
        self.kubeconfig = credentials.kubeconfig("admin", "system:masters")
        self._users = {
            name: credentials.kubeconfig(f"system:{name}")
            for name in ("kube-controller-manager", "kube-scheduler")
        }
        self._daemons: dict[str, Daemon] = {}

    def start(self) -> None:
        """Start them, and wait until the API server is ready.

        Raises:
            ClusterError: One of them ends, or the API server is not ready in time.
        """
        run("ip link set lo up")
        # With an address of its own, which would otherwise change with each node that comes.
        run("ip link add nodes address 02:00:0a:61:00:01 type bridge")
        run(f"ip address add {CONTROL}/24 dev nodes")
        run("ip link set nodes up")
        Path("/proc/sys/net/ipv4/ip_forward").write_text("1")
        data = self._folder / "etcd"
        data.mkdir(mode=0o700)
        # Nothing of it need survive the machine, and each write waits for the disk otherwise.
        run("mount -t tmpfs tfm", data)
        self._start("etcd", f"--data-dir={data}", "--unsafe-no-fsync", "--log-level=warn")
        api = self._start("kube-apiserver", *self._api_server())
        # `kubectl apply` needs the second, which is there some seconds after the first.
        for path in ("/readyz", "/openapi/v2"):
            asked = functools.partial(self._ask, "get", f"--raw={path}")
            api.wait_until(asked, f"the API server does not serve {path}")
        key, certificate = self._credentials.key, self._credentials.certificate
        self._start(
            "kube-controller-manager",
            f"--kubeconfig={self._users['kube-controller-manager']}",
            f"--service-account-private-key-file={key}",
            f"--root-ca-file={certificate}",
            "--use-service-account-credentials",
            "--leader-elect=false",
        )
        self._start(
            "kube-scheduler",
            f"--kubeconfig={self._users['kube-scheduler']}",
            "--leader-elect=false",
        )
        wanted = ("wait", "--for=create", "--timeout=1s", "serviceaccount/default")
        manager = self._daemons["kube-controller-manager"]
        manager.wait_until(lambda: self._ask(*wanted), "the default namespace has no account")

    def wait_for_node(self, name: str, node: Daemon) -> None:
        """Wait until a node is ready.

        Raises:
            ClusterError: It is not in time.
        """
        for condition in ("create", "condition=Ready"):
            wanted = ("wait", f"--for={condition}", "--timeout=1s", f"node/{name}")
            node.wait_until(
                functools.partial(self._ask, *wanted),
                f"the node {name} is not ready",
            )

    def version(self) -> str:
        """Return the API server's version, as "v1.36.2"."""
        return run(str(self._binaries / "kube-apiserver"), "--version").split()[-1]

    def _api_server(self) -> tuple[str, ...]:
        key, certificate = self._credentials.key, self._credentials.certificate
        return (
            "--etcd-servers=http://127.0.0.1:2379",
            f"--advertise-address={CONTROL}",
            f"--service-cluster-ip-range={SERVICES}",
            f"--tls-cert-file={certificate}",
            f"--tls-private-key-file={key}",
            f"--token-auth-file={self._credentials.tokens}",
            "--service-account-issuer=https://kubernetes.default.svc.cluster.local",
            f"--service-account-key-file={certificate}",
            f"--service-account-signing-key-file={key}",
            "--authorization-mode=Node,RBAC",
            "--enable-admission-plugins=NodeRestriction",
            "--allow-privileged",
            "--kubelet-preferred-address-types=InternalIP",
        )

    def _start(self, name: str, *options: str) -> Daemon:
        self._daemons[name] = Daemon(name, [self._binaries / name, *options], self._logs)
        return self._daemons[name]

    def _ask(self, *words: str) -> bool:
        kubectl = str(self._binaries / "kubectl")
        return quietly(kubectl, f"--kubeconfig={self.kubeconfig}", "--request-timeout=10s", *words)
