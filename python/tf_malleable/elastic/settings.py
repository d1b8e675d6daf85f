# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Settings with which a process takes part in a training, in environment variables."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Final

from tf_malleable.elastic.generation import Address
from tf_malleable.elastic.links.errors import MeshError

SETTINGS: Final = "TF_MALLEABLE_ELASTIC"
SECRET: Final = "TF_MALLEABLE_ELASTIC_SECRET"
"""Environment variable with a training's secret."""

LEFT: Final = 83
"""Exit code of a worker that left before the end of the training, if that is to be reported."""

CHECKPOINT_SECONDS: Final = 300.0
"""Default interval between checkpoints."""
# Shorter secrets could be guessed.
_SECRET_BYTES: Final = 16
# Beyond this, the words into which whole numbers are cut would not add up exactly.
MOST_SHARDS: Final = 256


@dataclass(frozen=True)
class TrainingSettings:
    """How a training is cut into shards; the same for all its members.

    Attributes:
        shards: Number of shards of each batch; 1 … 256.
        seed: Seed of Python's, NumPy's and TensorFlow's generators, set before the script runs;
            None leaves them as they are.
        threads: Number of threads inside an op of a shard, whatever the process may use: bits
            are then the same for any CPUs. None for as many as the process may use.
    """

    shards: int = 1
    seed: int | None = None
    threads: int | None = None


@dataclass(frozen=True)
class MeshSettings:
    """How to reach the coordinator, and this process.

    Attributes:
        coordinator: Address of the coordinator; None to train alone.
        secret: Secret of the training.
        host: Name or address at which others reach this process.
        port: TCP port at which this process listens; 0 for any.
        reached_at: Address at which others reach this process, if it listens at another; else
            None.
        cpus: Number of CPUs with which it computes; None for as many as it may use at the time.
        id: Id of this process; empty for a random one.
        place: Name of its place, for the user and programs; empty for host and process id.
        patience_seconds: How long to look for a coordinator at the start.
        alone_seconds: Time without a coordinator, having lost others, after which it trains on
            alone.
        leave_seconds: Time without a coordinator after which it leaves if told to, between two
            steps; after twice that also within a step. That is before the 10 s after which a
            controller kills.
        shards: Number of shards of each batch if this process trains alone; otherwise the
            coordinator decides.
        seed: As in TrainingSettings; None for one derived from the secret, if there is one.
        threads: Number of threads inside an op of a shard; 0 for as many as the process may use.
            None for 1, or for 0 without a coordinator and with one shard.
        checkpoint: Folder in which the state is saved; empty to save it nowhere.
        checkpoint_seconds: Minimum time between two checkpoints.
        left_code: Exit code of a worker that leaves before the training has ended.
    """

    coordinator: Address | None
    secret: bytes
    host: str = "127.0.0.1"
    port: int = 0
    reached_at: Address | None = None
    cpus: float | None = 1.0
    id: str = ""
    place: str = ""
    patience_seconds: float = 30.0
    alone_seconds: float = 10.0
    leave_seconds: float = 4.0
    shards: int = 1
    seed: int | None = None
    threads: int | None = None
    checkpoint: str = ""
    checkpoint_seconds: float = CHECKPOINT_SECONDS
    left_code: int = 0

    def training(self) -> TrainingSettings:
        """Return how the training is cut into shards, except for what a coordinator decides."""
        seed = self.seed
        if seed is None and self.secret:
            digest = hashlib.sha256(b"seed" + self.secret).digest()
            seed = int.from_bytes(digest[:4], "big")
        # Shards run side by side, so one thread for each is also the cheapest.
        usual = 0 if self.coordinator is None and self.shards == 1 else 1
        threads = usual if self.threads is None else self.threads
        return TrainingSettings(self.shards, seed, threads or None)

    def encode(self) -> str:
        """Return the settings as the value of TF_MALLEABLE_ELASTIC."""
        said = {**asdict(self), "secret": self.secret.hex()}
        return json.dumps(said)

    @classmethod
    def from_environment(cls) -> MeshSettings | None:
        """Return the settings from TF_MALLEABLE_ELASTIC; None if it is not set.

        Raises:
            MeshError: The value is not one that tfm elastic sets.
        """
        text = os.environ.get(SETTINGS)
        if not text:
            return None
        try:
            said = json.loads(text)
            for name in ("coordinator", "reached_at"):
                said[name] = None if said[name] is None else Address(**said[name])
            said["secret"] = bytes.fromhex(said["secret"])
            return cls(**said)
        except (ValueError, TypeError, KeyError, RecursionError):
            raise MeshError(f"{SETTINGS} is not what tfm elastic sets") from None


def address(text: str) -> Address:
    """Return an address from HOST:PORT.

    Raises:
        ValueError: The text is not HOST:PORT.
    """
    host, colon, port = text.rpartition(":")
    if not (host and colon and port.isdigit() and int(port) < 65536):
        raise ValueError(f"an address is HOST:PORT, such as 10.0.0.1:7070, not {text!r}")
    return Address(host.strip("[]"), int(port))


def secret(variables: Mapping[str, str] = os.environ) -> bytes:
    """Return the training's secret from the environment.

    Raises:
        ValueError: There is none, or it is too short or not a hexadecimal number.
    """
    try:
        found = bytes.fromhex(variables.get(SECRET, ""))
    except ValueError:
        found = b""
    if len(found) < _SECRET_BYTES:
        raise ValueError(
            f"{SECRET} must have the training's secret: at least {2 * _SECRET_BYTES} hexadecimal"
            " digits, such as those of: openssl rand -hex 32"
        )
    return found
