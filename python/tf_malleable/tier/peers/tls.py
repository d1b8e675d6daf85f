# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""TLS between nodes: each node has a certificate signed by the nodes' own CA."""

from __future__ import annotations

import ssl
from collections.abc import Callable
from pathlib import Path


def contexts(
    certificate: Path | None, authority: Path | None
) -> tuple[ssl.SSLContext | None, ssl.SSLContext | None]:
    """Return the TLS contexts of the server and the client of this node; None without TLS.

    Host names are not verified: the addresses of nodes change, and any holder of a certificate
    of the CA is a node.

    Raises:
        ValueError: A file cannot be read, or has no certificate or key in PEM format.
    """
    if certificate is None or authority is None:
        return None, None
    serving = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    asking = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    asking.check_hostname = False
    for context in (serving, asking):
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        context.verify_mode = ssl.CERT_REQUIRED
        _load(context.load_cert_chain, "--certificate", certificate)
        _load(context.load_verify_locations, "--authority", authority)
    return serving, asking


def _load(load: Callable[[str], object], option: str, file: Path) -> None:
    try:
        load(str(file))
    except ssl.SSLError:
        raise ValueError(f"{option} {file} has not what TLS needs, in PEM format") from None
    except OSError as error:
        raise ValueError(f"cannot read {option} {file}: {error.strerror}") from None
