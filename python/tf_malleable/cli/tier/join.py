# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""tfm run --tier: an environment in which programs read through the tier of this node."""

from __future__ import annotations

import os

from tf_malleable.cli.messages import say
from tf_malleable.model.errors import OperationError

TYPE_CHECKING = False  # As in typing, which takes longer to load than all of this.
if TYPE_CHECKING:
    from typing import Final

    from tf_malleable.linux.trusted_folder import TrustedFolder

_VARIABLE: Final = "TF_MALLEABLE_TIER"
_PRELOAD: Final = "LD_PRELOAD"
_COUNTS_BYTES: Final = 56
_S3_ENDPOINTS: Final = ("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL")


def join_tier() -> None:
    """Set the environment so that programs started from now on read through the tier.

    Without a tier, or if another user could have put its files there, print a message; the
    programs then read the source. What the tier copies and where to, the shim learns from the
    tier's state file.

    Raises:
        OperationError: The shim library is not installed.
    """
    # Not from api.tier, which imports msgspec: `tfm run` must start fast.
    from tf_malleable.api.transport.tier_address import (
        SHIM,
        counts_folder,
        default_tier_socket,
        endpoint_file,
        state_file,
    )
    from tf_malleable.linux.trusted_folder import TrustedFolder

    if not SHIM.exists():
        raise OperationError(f"this tf_malleable was built without {SHIM.name}")
    socket = default_tier_socket()
    try:
        with TrustedFolder(socket.parent, strict=True) as folder:
            os.close(folder.open(state_file(socket).name, os.O_RDONLY))
            counts = _counts(folder, counts_folder(socket).name)
            os.environ[_VARIABLE] = f"socket={folder.path / socket.name}\n{counts}"
            _join_objects(folder, endpoint_file(socket).name)
    except OSError as error:
        reason = error.strerror or error
        say(f"no tier at {socket} ({reason}), reading from the source")
        return
    loaded = [each for each in os.environ.get(_PRELOAD, "").replace(":", " ").split() if each]
    os.environ[_PRELOAD] = ":".join(dict.fromkeys([str(SHIM), *loaded]))


def _join_objects(beside: TrustedFolder, name: str) -> None:
    """Have programs read S3 through the tier, unless it has none, or they read another S3.

    Raises:
        OSError: The file with the endpoint is another user's.
    """
    try:
        with open(beside.open(name, os.O_RDONLY)) as file:
            endpoint, upstream = file.read().split()
    except FileNotFoundError:
        return
    from tf_malleable.linux.tcp_owners import owner_of

    host, _, port = endpoint.removeprefix("http://").partition(":")
    chosen = os.environ.get(_S3_ENDPOINTS[0]) or os.environ.get(_S3_ENDPOINTS[1]) or upstream
    # A daemon that was killed leaves the file, and another user may have its port now.
    if chosen.rstrip("/") != upstream or owner_of((host, int(port))) != os.geteuid():
        say(f"S3 is read from {chosen}, not through the tier")
        return
    # The AWS SDKs; TensorFlow and tensorflow-io.
    os.environ[_S3_ENDPOINTS[0]] = endpoint
    os.environ.update(S3_ENDPOINT=f"{host}:{port}", S3_USE_HTTPS="0", S3_VERIFY_SSL="0")
    for proxy in ("no_proxy", "NO_PROXY"):
        if os.environ.get(proxy) != "*":
            os.environ[proxy] = ",".join(filter(None, (os.environ.get(proxy), host)))


def _counts(beside: TrustedFolder, name: str) -> str:
    """Return the line that names the file in which all processes of the job count their reads."""
    # This process becomes the job's main process, with the same pid.
    file_name = f"{os.getpid()}-{os.urandom(4).hex()}"
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    try:
        folder = beside.open_folder(name)
        try:
            file = os.open(file_name, flags, 0o600, dir_fd=folder)
        finally:
            os.close(folder)
        with open(file, "wb") as counts:
            counts.write(bytes(_COUNTS_BYTES))
    except OSError:  # The daemon is older, or the folder is read-only in this container.
        return ""
    return f"counts={beside.path / name / file_name}\n"
