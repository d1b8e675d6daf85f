# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Files with address and secret of this user's elastic trainings, readable by the user only."""

from __future__ import annotations

import json
import os
import re
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tf_malleable.api.transport.address import standard_socket
from tf_malleable.elastic.generation import Address
from tf_malleable.elastic.links import messages
from tf_malleable.elastic.links.errors import MeshError
from tf_malleable.linux.trusted_folder import TrustedFolder
from tf_malleable.model import OperationError

_ASK_SECONDS = 5.0


@dataclass(frozen=True)
class Whereabouts:
    """How to reach the coordinator of a training.

    Attributes:
        address: Address at which the coordinator listens.
        secret: Secret of the training.
    """

    address: Address
    secret: bytes


def _folder() -> Path:
    return standard_socket().parent / "elastic"


def check_name(name: str) -> None:
    """Raise ValueError if this cannot be the name of a training."""
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}", name):
        raise ValueError(
            f"the name of a training has letters, digits, '.', '_' and '-' only, not {name!r}"
        )


def write(name: str, found: Whereabouts) -> Path:
    """Write the file of a training; return its path.

    Raises:
        OperationError: The file cannot be written.
    """
    path = _folder() / f"{name}.json"
    said = {**vars(found.address), "secret": found.secret.hex()}
    fresh = f"{name}.{os.getpid()}"
    try:
        with TrustedFolder(path.parent, 0o700) as folder:
            inside = folder.descriptor
            with suppress(FileNotFoundError):
                os.unlink(fresh, dir_fd=inside)
            descriptor = folder.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL)
            with open(descriptor, "w") as file:
                json.dump(said, file)
            os.rename(fresh, path.name, src_dir_fd=inside, dst_dir_fd=inside)
    except OSError as error:
        raise OperationError(f"cannot write {path}: {error.strerror}") from None
    return path


def remove(name: str) -> None:
    """Remove the file of a training, if it is there."""
    with suppress(OSError), TrustedFolder(_folder()) as folder:
        os.unlink(f"{name}.json", dir_fd=folder.descriptor)


def read(name: str | None) -> Whereabouts:
    """Read how to reach a training.

    Args:
        name: Name of the training; None for the only one.

    Raises:
        OperationError: There is no such training or, without a name, none or more than one.
    """
    if name is None:
        names = _names()
        if len(names) != 1:
            raise OperationError(
                f"there are several trainings, {', '.join(names)}: choose one with --name"
                if names
                else "there is no elastic training of this user here"
            )
        name = names[0]
    check_name(name)
    path = _folder() / f"{name}.json"
    try:
        with TrustedFolder(path.parent) as folder:
            descriptor = folder.open(path.name, os.O_RDONLY)
        with open(descriptor) as file:
            said = json.load(file)
        secret = bytes.fromhex(said.pop("secret"))
        return Whereabouts(Address(**said), secret)
    except FileNotFoundError:
        raise OperationError(f"there is no elastic training {name!r} of this user here") from None
    except OSError as error:
        raise OperationError(f"cannot read {path}: {error.strerror or error}") from None
    except (ValueError, TypeError, KeyError, RecursionError) as error:
        raise OperationError(f"cannot read {path}: {error}") from None


def _names() -> list[str]:
    """Return the names of this user's trainings."""
    try:
        with TrustedFolder(_folder()) as folder:
            return sorted(name[:-5] for name in folder.names() if name.endswith(".json"))
    except FileNotFoundError:
        return []
    except OSError as error:
        raise OperationError(f"cannot read {_folder()}: {error.strerror}") from None


def ask(found: Whereabouts, message: dict[str, Any]) -> dict[str, Any]:
    """Send a message to a coordinator, and return its answer.

    Raises:
        OperationError: The coordinator does not answer.
    """
    deadline = time.monotonic() + _ASK_SECONDS
    try:
        with messages.connect(found.address, found.secret, deadline) as connection:
            messages.send(connection, message, deadline)
            return messages.receive(connection, deadline)
    except (OSError, EOFError, MeshError) as error:
        where = f"{found.address.host}:{found.address.port}"
        raise OperationError(
            f"no coordinator of an elastic training answers at {where} ({error})"
        ) from None
