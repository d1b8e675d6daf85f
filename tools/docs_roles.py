# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""A Griffe extension: a docstring's :func:`name` links to that name's entry on the site."""

from __future__ import annotations

import re
from typing import Any

import griffe

_ROLE = re.compile(r":(?:func|meth|class):`(?:tf_malleable\.)?(\w+)`")


class Roles(griffe.Extension):
    """Turns Sphinx's roles into MkDocs' references."""

    def on_package(self, *, pkg: griffe.Module, **kwargs: Any) -> None:  # noqa: ANN401
        """Rewrite the docstrings of the names that the package exports."""
        public = set(pkg.exports or ())
        for name in pkg.exports or ():
            member = pkg.members[str(name)]
            target = member.final_target if isinstance(member, griffe.Alias) else member
            if target.docstring is not None:
                target.docstring.value = _ROLE.sub(
                    lambda role: _reference(role[1], public), target.docstring.value
                )


def _reference(name: str, public: set[Any]) -> str:
    return f"[`{name}`][tf_malleable.{name}]" if name in public else f"`{name}`"
