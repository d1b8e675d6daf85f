# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Environment variables that make `tfm run` start a worker of an elastic training, as in a pod.

They are for workers that cannot be given options: COORDINATOR and SECRET are required, and HOST
if the others are on other hosts.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Final

from tf_malleable.elastic.settings import LEFT, MeshSettings, address, secret

COORDINATOR: Final = "TF_MALLEABLE_ELASTIC_COORDINATOR"
"""HOST:PORT of the coordinator. If it is set, tfm run starts a worker."""
HOST: Final = "TF_MALLEABLE_ELASTIC_HOST"
"""Address at which other processes reach this one, such as the pod's."""
PORT: Final = "TF_MALLEABLE_ELASTIC_PORT"
"""Port at which this process listens for the others; any free port by default."""
PLACE: Final = "TF_MALLEABLE_ELASTIC_PLACE"
"""What tfm elastic status calls a process, such as a pod's name; by default host and process id.

A worker of tfm elastic run and a server have it, too.
"""
SEED: Final = "TF_MALLEABLE_ELASTIC_SEED"
"""Same as --seed of tfm elastic run."""
SHARD_THREADS: Final = "TF_MALLEABLE_ELASTIC_SHARD_THREADS"
"""Same as --shard-threads."""
CHECKPOINT: Final = "TF_MALLEABLE_ELASTIC_CHECKPOINT"
"""Same as --checkpoint."""
CHECKPOINT_EVERY: Final = "TF_MALLEABLE_ELASTIC_CHECKPOINT_EVERY"
"""Same as --checkpoint-every, in seconds."""
PATIENCE: Final = "TF_MALLEABLE_ELASTIC_PATIENCE"
"""Same as --patience, in seconds; 600 by default, as pods start in any order."""

_PATIENCE_SECONDS: Final = 600.0
_MOST_SECONDS: Final = 1e6


def worker(variables: Mapping[str, str]) -> MeshSettings | None:
    """Return the settings of the worker that these variables request; None if they do not.

    The worker has as many CPUs as its cgroup allows at the time.

    Raises:
        ValueError: The value of a variable is not allowed.
    """
    where = variables.get(COORDINATOR)
    if not where:
        return None
    try:
        coordinator = address(where)
    except ValueError as error:
        raise ValueError(f"{COORDINATOR}: {error}") from None
    usual = MeshSettings(coordinator, secret(variables))
    return MeshSettings(
        coordinator,
        usual.secret,
        host=variables.get(HOST) or usual.host,
        port=_number(variables, PORT, 65535) or 0,
        cpus=None,
        place=variables.get(PLACE, ""),
        patience_seconds=_seconds(variables, PATIENCE, _PATIENCE_SECONDS),
        seed=_number(variables, SEED, 2**32 - 1),
        threads=_number(variables, SHARD_THREADS, 1024),
        checkpoint=variables.get(CHECKPOINT, ""),
        checkpoint_seconds=_seconds(variables, CHECKPOINT_EVERY, usual.checkpoint_seconds),
        left_code=LEFT,
    )


def _number(variables: Mapping[str, str], name: str, most: int) -> int | None:
    text = variables.get(name, "")
    if not text:
        return None
    if not (text.isascii() and text.isdigit() and int(text) <= most):
        raise ValueError(f"{name} must be an integer from 0 to {most}, not {text!r}")
    return int(text)


def _seconds(variables: Mapping[str, str], name: str, usual: float) -> float:
    text = variables.get(name, "")
    try:
        found = float(text) if text else usual
    except ValueError:
        found = math.nan
    if not 0 < found <= _MOST_SECONDS:
        raise ValueError(f"{name} must be a positive number of seconds, not {text!r}")
    return found
