# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""TLS between nodes: each has a certificate that the nodes' own authority has signed."""

from __future__ import annotations

import ssl
from collections.abc import Callable
from pathlib import Path


def contexts(
    certificate: Path | None, authority: Path | None
) -> tuple[ssl.SSLContext | None, ssl.SSLContext | None]:
    """Return what this node serves with, and what it asks with; None without TLS.

    Names are not compared: nodes are known by addresses that come and go, and whoever has a
    certificate of the authority is a node.

    Raises:
        ValueError: A file cannot be read, or is none of these.
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
