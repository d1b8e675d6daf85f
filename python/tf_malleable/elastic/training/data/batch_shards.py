# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Division of a batch into shards. Pure."""

from __future__ import annotations

from typing import Final

# Sums are of values times this power of two. Each finite float32 is a multiple of 2**-149, so
# that no sum of scaled ones is subnormal, which some threads flush to zero and others do not.
SCALE: Final = 2.0**24
_GOLDEN: Final = 0x9E3779B1
# Bits of the 63-bit number of a seed generator's draw: for the draw within an epoch, for the
# epoch within a fit(), and for the call of fit().
_DRAW_BITS: Final = 32
_EPOCH_BITS: Final = 20
_FIT_BITS: Final = 11


def sizes(examples: int, shards: int) -> list[int]:
    """Return the number of examples of each shard; the first ones may have one more than the last.

    Args:
        examples: Number of examples in the batch.
        shards: Number of shards; at least 1.
    """
    each, left = divmod(examples, shards)
    return [each + (number < left) for number in range(shards)]


def salt(shard: int) -> int:
    """Return the salt of a shard's random numbers, below 2**31; 0 for shard 0.

    Fibonacci hashing (Knuth, TAOCP 3, 6.4), so that neighbours have little in common.
    """
    return (shard * _GOLDEN) & 0x7FFFFFFF


def first_draw(fit: int, epoch: int) -> int:
    """Return the number of the first draw of an epoch, below 2**63."""
    fits, epochs = fit % (1 << _FIT_BITS), epoch % (1 << _EPOCH_BITS)
    return ((fits << _EPOCH_BITS) + epochs) << _DRAW_BITS
