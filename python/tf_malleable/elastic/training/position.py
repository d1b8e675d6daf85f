# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Position of a training, and a member's description of itself for a newcomer. Pure."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, NamedTuple

import numpy as np

from tf_malleable.elastic.training.checks import RefusedError

Logs = dict[str, Any]


class Place(NamedTuple):
    """Position in a training; later ones compare greater.

    Attributes:
        fit: Number of the call of fit(), from 0.
        epoch: Keras's number of the epoch.
        is_over: True if all batches of the epoch are done; validation and its logs follow.
        batch: Number of batches done in the epoch; 0 if it is over.
    """

    fit: int
    epoch: int
    is_over: bool
    batch: int


@dataclass(frozen=True)
class Description:
    """A member's description of its state, besides the values of variables.

    Attributes:
        step: Number of the next step of the mesh.
        position: Position of the member.
        first_epoch: Number of the first epoch of this fit().
        order: Seed of the order of examples.
        logs: Logs of past epochs, by "fit/epoch"; at the end of an epoch also its own, before all
            members agree on them.
        marks: Fingerprints of the first batches of epochs, by "fit/epoch".
        shapes: Type and shape of each variable, such as "float32[3, 4]".
        kept: Arrays of callbacks, which follow the variables: for each, the number of its
            callback, its type and its shape.
    """

    step: int
    position: Place
    first_epoch: int
    order: int
    logs: Mapping[str, Logs] = field(default_factory=dict)
    marks: Mapping[str, int] = field(default_factory=dict)
    shapes: tuple[str, ...] = ()
    kept: tuple[str, ...] = ()

    def as_bytes(self) -> bytes:
        """Return the description as bytes for the network."""
        return json.dumps(asdict(self), default=np.ndarray.tolist).encode()

    @classmethod
    def from_bytes(cls, said: bytes) -> Description:
        """Return the description from what as_bytes() has returned.

        Raises:
            RefusedError: The bytes are malformed.
        """
        try:
            values = json.loads(said)
            values["position"] = Place(*values["position"])
            values["shapes"] = tuple(values["shapes"])
            values["kept"] = tuple(values["kept"])
            values["logs"] = {key: _arrays(logs) for key, logs in values["logs"].items()}
            return cls(**values)
        except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
            raise RefusedError(f"the state that came is not one of this version: {error}") from None


def _arrays(logs: Mapping[str, Any]) -> Logs:
    return {
        name: np.asarray(value) if isinstance(value, list) else value
        for name, value in logs.items()
    }


def key(fit: int, epoch: int) -> str:
    """Return the key of an epoch in logs and marks."""
    return f"{fit}/{epoch}"
