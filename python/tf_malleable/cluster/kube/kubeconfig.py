# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""API endpoint and credentials, from a kubeconfig or from the pod's service account.

The kubernetes package reads all forms of configuration and renews credentials that expire. The
calls themselves are made by client.py.
"""

from __future__ import annotations

import os
import ssl
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit
from urllib.request import proxy_bypass

from tf_malleable.model import OperationError
from tf_malleable.model.units import quoted

if TYPE_CHECKING:
    from kubernetes.client import Configuration

_MISSING: Final = "the package kubernetes is missing: install tf_malleable with its extra, cluster"
NAMESPACE_FILE: Final = Path("/var/run/secrets/kubernetes.io/serviceaccount/namespace")


@dataclass(frozen=True)
class ApiServer:
    """Endpoint and credentials of an API server.

    Attributes:
        url: URL without a trailing slash.
        headers: Returns the headers that authenticate a call; called for each call, as credentials
            may expire.
        tls: TLS context that verifies the server; None for plain HTTP.
        tls_name: Name in the server's certificate; None for the one in the URL.
        proxy: URL of the proxy through which to call; None for none.
    """

    url: str
    headers: Callable[[], Mapping[str, str]]
    tls: ssl.SSLContext | None = None
    tls_name: str | None = None
    proxy: str | None = None


def find(kubeconfig: Path | None, context: str | None = None) -> ApiServer:
    """Return endpoint and credentials of the API server.

    Args:
        kubeconfig: Path of the kubeconfig; None for that of KUBECONFIG or of the home folder, or,
            in a pod, for the pod's service account.
        context: Context of the kubeconfig; None for its current one.

    Raises:
        OperationError: No configuration is found, or the package kubernetes is missing.
    """
    try:
        from kubernetes import config
        from kubernetes.client import Configuration
    except ImportError:
        raise OperationError(_MISSING) from None
    found = Configuration()
    try:
        if kubeconfig is None and NAMESPACE_FILE.exists():
            config.load_incluster_config(client_configuration=found)  # type: ignore[no-untyped-call]
        else:
            config.load_kube_config(_file(kubeconfig), context, found)  # type: ignore[no-untyped-call]
    except (config.ConfigException, OSError) as error:
        raise OperationError(f"no Kubernetes cluster is known: {error}") from None
    return ApiServer(
        found.host.rstrip("/"),
        lambda: _headers(found),
        _tls(found),
        found.tls_server_name,
        _proxy(found),
    )


def _file(kubeconfig: Path | None) -> str | None:
    # The package reads the variable only once, when it is imported.
    return os.environ.get("KUBECONFIG") if kubeconfig is None else str(kubeconfig)


def _headers(found: Configuration) -> Mapping[str, str]:
    # The name of the key has changed between versions of the package.
    names = [name for name in ("BearerToken", "authorization") if name in found.api_key]
    said = found.get_api_key_with_prefix(names[0]) if names else None
    return {"Authorization": said} if said else {}


def _tls(found: Configuration) -> ssl.SSLContext | None:
    if not found.host.startswith("https:"):
        return None
    made = ssl.create_default_context(cafile=found.ssl_ca_cert)
    if found.cert_file:
        made.load_cert_chain(found.cert_file, found.key_file)
    if not found.verify_ssl:
        made.check_hostname, made.verify_mode = False, ssl.CERT_NONE
    return made


def _proxy(found: Configuration) -> str | None:
    """Return the proxy of the kubeconfig or of the environment, which the package reads, too."""
    host = urlsplit(found.host).hostname or ""
    excepted = {"no": found.no_proxy or ""}
    # As kubectl, which asks its own machine without the environment's proxy.
    is_local = host == "localhost" or host.startswith("127.") or host == "::1"
    is_direct = is_local or proxy_bypass(host, excepted)
    return None if is_direct else found.proxy


def own_namespace() -> str:
    """Return the namespace of this process's pod; "default" outside of a cluster."""
    try:
        return NAMESPACE_FILE.read_text().strip() or "default"
    except OSError:
        return "default"


def namespace(kubeconfig: Path | None, context: str | None = None) -> str:
    """Return the namespace of a kubeconfig's context; "default" if the context names none.

    In a pod without a kubeconfig, return the pod's namespace. The arguments are those of find().

    Raises:
        OperationError: There is no such context, no configuration is found, or the package
            kubernetes is missing.
    """
    try:
        from kubernetes import config
    except ImportError:
        raise OperationError(_MISSING) from None
    if kubeconfig is None and NAMESPACE_FILE.exists():
        return own_namespace()
    try:
        found = config.list_kube_config_contexts(_file(kubeconfig))  # type: ignore[no-untyped-call]
    except (config.ConfigException, OSError) as error:
        raise OperationError(f"no Kubernetes cluster is known: {error}") from None
    contexts, current = found
    for each in contexts:
        if each["name"] == (context or current["name"]):
            return str(each["context"].get("namespace") or "default")
    raise OperationError(f"the kubeconfig has no context {quoted(context)}")
