# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Who may do what in the cluster: one certificate, and a token for each user."""

from __future__ import annotations

import base64
import json
import secrets
from pathlib import Path

from real_kubernetes.addresses import CONTROL, SERVICE_OF_API
from real_kubernetes.daemon import run

SERVER = f"https://{CONTROL}:6443"
_NAMES = (
    f"IP:127.0.0.1,IP:{CONTROL},IP:{SERVICE_OF_API},DNS:localhost,DNS:kubernetes"
    ",DNS:kubernetes.default,DNS:kubernetes.default.svc,DNS:kubernetes.default.svc.cluster.local"
)


class Credentials:
    """The files that prove who is who.

    Args:
        folder: An existing folder for them.

    Attributes:
        certificate: Path of the API server's certificate, which is its own authority.
        key: Path of its key, which signs the tokens of service accounts, too.
        tokens: Path of the users' tokens, as kube-apiserver's --token-auth-file wants it.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.certificate, self.key = folder / "server.crt", folder / "server.key"
        self.tokens = folder / "tokens.csv"
        self.tokens.touch(mode=0o600)
        run(
            "openssl req -x509 -newkey rsa:2048 -noenc -days 30 -subj /CN=kubernetes",
            *("-addext", f"subjectAltName={_NAMES}"),
            *("-keyout", self.key, "-out", self.certificate),
        )

    def kubeconfig(self, user: str, *groups: str) -> Path:
        """Add a user, unless it is there; return its kubeconfig's path.

        The API server must not run yet: it reads the tokens when it starts.
        """
        path = self._folder / f"{user.replace(':', '-')}.kubeconfig"
        if path.exists():
            return path
        token = secrets.token_hex(16)
        with self.tokens.open("a") as lines:
            lines.write(f'{token},{user},{user},"{",".join(groups)}"\n')
        authority = base64.b64encode(self.certificate.read_bytes()).decode()
        cluster = {"server": SERVER, "certificate-authority-data": authority}
        config = {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": "real", "cluster": cluster}],
            "users": [{"name": user, "user": {"token": token}}],
            "contexts": [{"name": "real", "context": {"cluster": "real", "user": user}}],
            "current-context": "real",
        }
        path.touch(mode=0o600)
        path.write_text(json.dumps(config, indent=2))
        return path
