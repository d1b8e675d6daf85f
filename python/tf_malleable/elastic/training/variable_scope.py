# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Shard scope: a shard's view of the model's variables, whose changes are noted but not made.

Trainable weights are read as they are. Everything else that a step changes becomes a difference
that can be summed over shards.
"""

from __future__ import annotations

from typing import Any

import tensorflow as tf
from keras.src.backend.common.stateless_scope import StatelessScope

_SEED_STATE = "seed_generator_state"


class ShardScope(StatelessScope):  # type: ignore[misc] # Keras is not typed.
    """A scope in which a forward pass changes no variable.

    Metrics start at zero. Seed generators start at their present state, with the shard's
    salt mixed in: shard 0 draws what Keras would draw.
    """

    def __init__(self, metrics: list[Any], salt: Any) -> None:
        """Create the scope.

        Args:
            metrics: Variables of the model's metrics.
            salt: Salt of the shard, a scalar int64 tensor.
        """
        super().__init__(collect_losses=True)
        self._metrics = {id(variable) for variable in metrics}
        self._salt = salt
        self._starts: dict[int, Any] = {}
        self.changed: dict[int, Any] = {}

    def get_current_value(self, variable: Any) -> Any:
        """Return the value in this scope; None for a variable that has none yet."""
        value = super().get_current_value(variable)
        if value is None and variable._value is not None:
            if self.is_of_metrics(variable):
                value = tf.zeros(variable.shape, variable.dtype)
            elif is_seed_state(variable):
                mixed = tf.stack([self._salt, tf.constant(0, self._salt.dtype)])
                own = variable._value
                value = tf.bitwise.bitwise_xor(own, tf.cast(mixed, own.dtype))
            if value is None:
                return variable._value
            self.state_mapping[id(variable)] = self._starts[id(variable)] = value
        return value

    def add_update(self, update: tuple[Any, Any]) -> None:
        """Note a new value."""
        self.changed[id(update[0])] = update[0]
        super().add_update(update)

    def is_of_metrics(self, variable: Any) -> bool:
        """Return whether a variable belongs to one of the model's metrics."""
        return id(variable) in self._metrics

    def value(self, variable: Any) -> Any:
        """Return the new value of a changed variable."""
        return self.state_mapping[id(variable)]

    def difference(self, variable: Any) -> Any:
        """Return the new value minus the one with which the shard began."""
        start = self._starts.get(id(variable), variable._value)
        return self.value(variable) - start


def is_seed_state(variable: Any) -> bool:
    """Return whether a variable is the state of a SeedGenerator."""
    return bool(variable.name == _SEED_STATE) and "int" in variable.dtype
