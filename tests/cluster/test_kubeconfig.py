# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""What a kubeconfig says of the way to its API server is followed, as kubectl does it."""

from __future__ import annotations

import asyncio
import json
import shutil
import ssl
import subprocess
import sys

import pytest
from aiohttp import web

from tf_malleable.cluster.kube import kubeconfig
from tf_malleable.cluster.kube.client import ApiClient, CallError
from tf_malleable.cluster.resource_names import PODS

NAME = "kubernetes.example"
PATH = "/api/v1/namespaces/d/pods/one"


@pytest.fixture(scope="module")
def certificate(tmp_path_factory):
    """A certificate, and its key, for a name that is not that of this machine."""
    if shutil.which("openssl") is None:
        pytest.skip("needs openssl")
    folder = tmp_path_factory.mktemp("tls")
    cert, key = folder / "cert", folder / "key"
    words = f"openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -subj /CN={NAME}"
    words += f" -addext subjectAltName=DNS:{NAME} -noenc -days 1 -keyout {key} -out {cert}"
    subprocess.run(words.split(), check=True, capture_output=True)
    return cert, key


def get_pod(tmp_path, cluster, user=None, tls=None):
    """Ask for a pod; return what the server was asked: host, path and Authorization.

    Args:
        tmp_path: For the kubeconfig.
        cluster: What the kubeconfig says of the cluster, for the port where this test listens.
        user: What it says of the user.
        tls: Certificate and key of the server; None for plain HTTP.
    """
    asked = []

    async def answer(request):
        asked.append((request.host, request.path, request.headers.get("Authorization")))
        return web.json_response({"kind": "Pod"})

    async def ask():
        runner = web.ServerRunner(web.Server(answer))
        await runner.setup()
        context = None
        if tls is not None:
            context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
            context.load_cert_chain(*tls)
        await web.TCPSite(runner, "127.0.0.1", 0, ssl_context=context).start()
        port = runner.addresses[0][1]
        path = tmp_path / "config"
        about = {"cluster": "c", "user": "u"}
        path.write_text(
            json.dumps(
                {
                    "clusters": [{"name": "c", "cluster": cluster(port)}],
                    "users": [{"name": "u", "user": user or {}}],
                    "contexts": [{"name": "x", "context": about}],
                    "current-context": "x",
                }
            )
        )
        client = ApiClient(kubeconfig.find(path), call_seconds=20)
        try:
            await client.get(PODS, "d", "one")
        finally:
            await client.close()
            await runner.cleanup()

    asyncio.run(ask())
    return asked


def test_the_name_in_the_certificate_may_be_another_one(tmp_path, certificate):
    def cluster(port, **more):
        server = {"server": f"https://127.0.0.1:{port}", "certificate-authority": certificate[0]}
        return {name: str(value) for name, value in {**server, **more}.items()}

    with pytest.raises(CallError, match="certificate"):
        get_pod(tmp_path, cluster, tls=certificate)
    said = {"tls-server-name": NAME}
    found = get_pod(tmp_path, lambda port: cluster(port, **said), tls=certificate)
    assert [path for _, path, _ in found] == [PATH]


def test_calls_go_through_the_proxy(tmp_path):
    server = "http://api.invalid:1"
    found = get_pod(
        tmp_path, lambda port: {"server": server, "proxy-url": f"http://127.0.0.1:{port}"}
    )
    assert found == [("api.invalid", PATH, None)]


@pytest.mark.parametrize("is_excepted", [False, True])
def test_a_proxy_of_the_environment_is_used_too(tmp_path, monkeypatch, is_excepted):
    def cluster(port):
        monkeypatch.setenv("HTTP_PROXY", f"http://127.0.0.1:{port}")
        monkeypatch.setenv("NO_PROXY", "localhost,.invalid" if is_excepted else "localhost")
        return {"server": "http://api.invalid:1"}

    if is_excepted:
        with pytest.raises(CallError, match=r"api\.invalid"):
            get_pod(tmp_path, cluster)
    else:
        assert get_pod(tmp_path, cluster) == [("api.invalid", PATH, None)]


def test_this_machine_is_asked_without_the_environments_proxy(tmp_path, monkeypatch):
    monkeypatch.setenv("HTTP_PROXY", "http://proxy.invalid:1")
    monkeypatch.setenv("NO_PROXY", "")
    (found,) = get_pod(tmp_path, lambda port: {"server": f"http://127.0.0.1:{port}"})
    assert found[1] == PATH


def test_a_program_says_the_token(tmp_path):
    said = {"apiVersion": "client.authentication.k8s.io/v1", "kind": "ExecCredential"}
    said["status"] = {"token": "secret"}
    program = {
        "apiVersion": said["apiVersion"],
        "command": sys.executable,
        "args": ["-c", f"print({json.dumps(said)!r})"],
        "interactiveMode": "Never",
    }
    found = get_pod(
        tmp_path, lambda port: {"server": f"http://127.0.0.1:{port}"}, {"exec": program}
    )
    assert [token for _, _, token in found] == ["Bearer secret"]
