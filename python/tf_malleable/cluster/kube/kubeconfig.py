# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Where the API server is, and who we are to it: from a kubeconfig, or as a pod.

The kubernetes package knows all the ways in which that can be said, and renews what expires.
What goes over the connection is ours: see client.py.
"""

from __future__ import annotations

import os
import ssl
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from tf_malleable.model import OperationError

if TYPE_CHECKING:
    from kubernetes.client import Configuration

_MISSING: Final = "the package kubernetes is missing: install tf_malleable with its extra, cluster"
NAMESPACE_FILE: Final = Path("/var/run/secrets/kubernetes.io/serviceaccount/namespace")


@dataclass(frozen=True)
class ApiServer:
    """How to reach an API server.

    Attributes:
        url: Without a slash at the end.
        headers: Returns what identifies us, anew each time as it may expire.
        tls: How to check who answers; None for plain HTTP.
    """

    url: str
    headers: Callable[[], Mapping[str, str]]
    tls: ssl.SSLContext | None = None


def find(kubeconfig: Path | None, context: str | None = None) -> ApiServer:
    """Return where the API server is.

    Args:
        kubeconfig: A file; None for that of KUBECONFIG or the home folder, or, in a pod, for the
            pod's own account.
        context: Of the file; None for its current one.

    Raises:
        OperationError: Nothing says where it is.
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
    return ApiServer(found.host.rstrip("/"), lambda: _headers(found), _tls(found))


def _file(kubeconfig: Path | None) -> str | None:
    # The package would take what the variable was when it was imported.
    return os.environ.get("KUBECONFIG") if kubeconfig is None else str(kubeconfig)


def _headers(found: Configuration) -> Mapping[str, str]:
    # Its name has changed between versions of the package.
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


def own_namespace() -> str:
    """Return the namespace of this process's pod; "default" outside of a cluster."""
    try:
        return NAMESPACE_FILE.read_text().strip() or "default"
    except OSError:
        return "default"


def namespace(kubeconfig: Path | None, context: str | None = None) -> str:
    """Return the namespace that a context of a kubeconfig names; arguments as those of find().

    Raises:
        OperationError: There is no such context.
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
    raise OperationError(f"the kubeconfig has no context {context!r}")
