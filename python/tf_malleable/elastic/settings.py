# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""What a process must know to take part in a training, in environment variables."""

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
"""The variable with a training's secret."""

LEFT: Final = 83
"""Exit code of a worker that has left before the training has ended, where that is to be told."""

CHECKPOINT_SECONDS: Final = 300.0
"""How often the state is kept, unless somebody says otherwise."""
# Shorter ones could be guessed.
_SECRET_BYTES: Final = 16
# Beyond it, the words that whole numbers are cut into would not add up exactly.
MOST_SHARDS: Final = 256


@dataclass(frozen=True)
class TrainingSettings:
    """How a training is cut up; the same for all its members.

    Attributes:
        shards: Into how many each batch is cut; 1 … 256.
        seed: Of Python's, NumPy's and TensorFlow's generators, before the script runs; None
            leaves them as they are.
        threads: Threads inside an op of a shard, whatever the process may use: bits are
            then the same for any CPUs. None for as many as the process may use.
    """

    shards: int = 1
    seed: int | None = None
    threads: int | None = None


@dataclass(frozen=True)
class MeshSettings:
    """How to reach the coordinator, and this process.

    Attributes:
        coordinator: Where the coordinator listens; None to train alone.
        secret: Of the training.
        host: Name or address at which others reach this process.
        port: At which it listens; 0 for any.
        reached_at: Where others reach it, if that is not where it listens.
        cpus: With how many CPUs it computes; None for as many as it may use at the time.
        id: Names it; empty for a random name.
        place: Where it is, for people and programs; empty for its host and process id.
        patience_seconds: For how long to look for a coordinator at the start.
        alone_seconds: After how long without a coordinator, having lost others, to train on alone.
        leave_seconds: After how long without a coordinator to go, if told to; well before the 10 s
            after which a controller kills.
        shards: Into how many each batch is cut, if this process trains alone; with a coordinator,
            that says it.
        seed: As in TrainingSettings; None for one that follows from the secret, if there is one.
        threads: Inside an op of a shard; 0 for as many as the process may use. None for 1, or
            without a coordinator and with one shard for 0.
        checkpoint: Folder in which the state is kept; empty to keep it nowhere.
        checkpoint_seconds: How often, at most.
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
        """Return how the training is cut up, but for what a coordinator says."""
        seed = self.seed
        if seed is None and self.secret:
            digest = hashlib.sha256(b"seed" + self.secret).digest()
            seed = int.from_bytes(digest[:4], "big")
        # Shards run side by side, so that one thread for each is the cheapest, too.
        usual = 0 if self.coordinator is None and self.shards == 1 else 1
        threads = usual if self.threads is None else self.threads
        return TrainingSettings(self.shards, seed, threads or None)

    def encode(self) -> str:
        """Return it as the value of TF_MALLEABLE_ELASTIC."""
        said = {**asdict(self), "secret": self.secret.hex()}
        return json.dumps(said)

    @classmethod
    def from_environment(cls) -> MeshSettings | None:
        """Return what TF_MALLEABLE_ELASTIC says; None if it is not set.

        Raises:
            MeshError: It is not what tfm elastic sets.
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
        except (ValueError, TypeError, KeyError):
            raise MeshError(f"{SETTINGS} is not what tfm elastic sets") from None


def address(text: str) -> Address:
    """Return an address from HOST:PORT.

    Raises:
        ValueError: It is none.
    """
    host, colon, port = text.rpartition(":")
    if not (host and colon and port.isdigit() and int(port) < 65536):
        raise ValueError(f"an address is HOST:PORT, such as 10.0.0.1:7070, not {text!r}")
    return Address(host.strip("[]"), int(port))


def secret(variables: Mapping[str, str] = os.environ) -> bytes:
    """Return the secret that the environment has.

    Raises:
        ValueError: It has none, or one that is too short or no hexadecimal number.
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
