# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""JSON of API objects, of which users choose a part, such as the template of pods."""

from __future__ import annotations

import json
import re
from typing import Any, Final

# In levels. No object of Kubernetes has a tenth of these.
_DEEPEST: Final = 200
_TOKEN: Final = re.compile(r'"(?:[^"\\]|\\.)*"|[\[{]|[\]}]')


def decode(text: str) -> Any:  # noqa: ANN401 - any JSON value
    """Return a JSON value; what is nested more deeply than Python can read becomes null.

    API servers take 10,000 levels, and json.loads() takes fewer: without this, a user whose object
    has as many would stop an operator that lists the objects of all.

    Raises:
        ValueError: The text is not JSON.
    """
    try:
        return json.loads(text)
    except RecursionError:
        return json.loads(_pruned(text))


def _pruned(text: str) -> str:
    """Return JSON with null in the place of each object and list below _DEEPEST others."""
    pieces, begin, depth = [], 0, 0
    for found in _TOKEN.finditer(text):
        if found[0] in "[{":
            if depth == _DEEPEST:
                pieces += [text[begin : found.start()], "null"]
            depth += 1
        elif found[0] in "]}":
            depth -= 1
            if depth == _DEEPEST:
                begin = found.end()
    if depth >= _DEEPEST:
        raise ValueError("the text ends within an object")
    return "".join([*pieces, text[begin:]])
