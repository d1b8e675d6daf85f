# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""The policies that are compared."""

from __future__ import annotations


def all_policies() -> dict[str, str]:
    """Return all policies, each with what it does, and each with lending."""
    from tf_malleable.policies.registry import available

    # Those with a budget decide like those without as long as there is none.
    plain = {name: says for name, says in available() if "+" not in name}
    return plain | {f"lend+{name}": "the same, lending idle cores" for name in plain}
