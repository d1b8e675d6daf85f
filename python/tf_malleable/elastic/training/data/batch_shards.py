# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""How a batch is cut into shards. Pure."""

from __future__ import annotations

from typing import Final

# Sums are of values times this power of two. Each finite float32 is a multiple of 2**-149, so
# that no sum of scaled ones is subnormal, which some threads flush to zero and others do not.
SCALE: Final = 2.0**24
_GOLDEN: Final = 0x9E3779B1
# Of the 63 bits that number what a seed generator draws: those for draws of one epoch, and
# those for epochs of one fit().
_DRAW_BITS: Final = 32
_EPOCH_BITS: Final = 20
_FIT_BITS: Final = 11


def sizes(examples: int, shards: int) -> list[int]:
    """Return how many examples each shard has; the first ones have one more than the last.

    Args:
        examples: In the batch.
        shards: At least 1.
    """
    each, left = divmod(examples, shards)
    return [each + (number < left) for number in range(shards)]


def salt(shard: int) -> int:
    """Return what distinguishes the random numbers of a shard, below 2**31; 0 for shard 0.

    Fibonacci hashing (Knuth, TAOCP 3, 6.4), so that neighbours have little in common.
    """
    return (shard * _GOLDEN) & 0x7FFFFFFF


def first_draw(fit: int, epoch: int) -> int:
    """Return the number of the first draw of an epoch, below 2**63."""
    fits, epochs = fit % (1 << _FIT_BITS), epoch % (1 << _EPOCH_BITS)
    return ((fits << _EPOCH_BITS) + epochs) << _DRAW_BITS
