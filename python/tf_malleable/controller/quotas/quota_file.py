# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Quota file: the quotas of users.

    [*]
    max-jobs = 50

    [ada]
    weight = 2
    max-cores = 32
    max-mem = 256G
    max-gpus = 4

Each section is named after a user or a user id. The settings of `[*]` apply to all users
without a setting of their own. Root has no quota unless there is a section for root.
"""

from __future__ import annotations

import configparser
import math
import os
import pwd
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Final

from tf_malleable.api.schema.job_request import LEAST_MEM, MOST_GPUS, MOST_MEM
from tf_malleable.api.validation import cut
from tf_malleable.model.quota import NO_QUOTA, NO_QUOTAS, Quota, Quotas
from tf_malleable.model.units import parse_size, quoted

DEFAULT: Final = Path("/etc/tf_malleable/quotas.conf")
"""Quota file of root's controller, if it exists."""

_ALL = "*"
_WEIGHT = "weight"
_MEM = "max-mem"
# The lowest and the highest value of each limit.
_LIMITS: Final = {
    "max-jobs": (1, 1_000_000),
    "max-queued": (1, 1_000_000),
    "max-running": (1, 1_000_000),
    "max-cores": (1, 1_000_000),
    "max-gpus": (0, MOST_GPUS),
}
_HEAVIEST = 1000.0
_LONGEST_COMPLAINT: Final = 300
# Of a user id, which has 32 bits.
_MOST_DIGITS: Final = 10


def default_quotas() -> Quotas:
    """Return the quotas of the default file for root's controller; none for other users'.

    Raises:
        ValueError: As read_quotas().
    """
    if os.geteuid() != 0 or not os.path.lexists(DEFAULT):
        return NO_QUOTAS
    return read_quotas(DEFAULT)


def read_quotas(path: Path) -> Quotas:
    """Return the quotas in a file.

    Raises:
        ValueError: The file cannot be read or is invalid; the message is one sentence.
    """
    parser = configparser.ConfigParser(
        default_section=_ALL, delimiters=("=",), interpolation=None, empty_lines_in_values=False
    )
    try:
        parser.read_string(path.read_text(encoding="utf-8"), source=str(path))
    except OSError as error:
        raise ValueError(f"cannot read the quotas in {path}: {error.strerror}") from None
    except UnicodeDecodeError:
        raise ValueError(f"the quotas in {path} are not UTF-8") from None
    except configparser.Error as error:
        raise ValueError(
            f"the quotas in {path} are invalid: {cut(str(error), _LONGEST_COMPLAINT)}"
        ) from None
    try:
        usual = _quota(_ALL, parser.defaults())
        own = {_user_id(name): _quota(name, parser[name]) for name in parser.sections()}
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from None
    if "root" in parser or "0" in parser:
        return Quotas(usual, own)
    return Quotas(usual, {**own, 0: NO_QUOTA})


def _user_id(name: str) -> int:
    if name.isascii() and name.isdigit() and len(name) <= _MOST_DIGITS:
        return int(name)
    try:
        return pwd.getpwnam(name).pw_uid
    except KeyError:
        raise ValueError(f"there is no user {quoted(name)}") from None


def _quota(section: str, settings: Mapping[str, str]) -> Quota:
    quota = NO_QUOTA
    for key, text in settings.items():
        what = f"{key} of [{section}]"
        if key == _WEIGHT:
            quota = replace(quota, weight=_weight(what, text))
        elif key in _LIMITS:
            quota = replace(quota, **{key.replace("-", "_"): _limit(what, text, *_LIMITS[key])})
        elif key == _MEM:
            quota = replace(quota, max_mem=_size(what, text))
        else:
            known = ", ".join((_WEIGHT, *_LIMITS, _MEM))
            raise ValueError(f"[{section}] has no setting {quoted(key)}; there are {known}")
    return quota


def _weight(what: str, text: str) -> float:
    try:
        weight = float(text)
    except ValueError:
        weight = math.nan
    if not 0 < weight <= _HEAVIEST:
        raise ValueError(
            f"{what} must be a number above 0, at most {_HEAVIEST:g}, not {quoted(text)}"
        )
    return weight


def _limit(what: str, text: str, lowest: int, highest: int) -> int:
    limit = int(text) if text.isascii() and text.isdigit() and len(text) < 8 else -1
    if not lowest <= limit <= highest:
        raise ValueError(
            f"{what} must be an integer from {lowest} to {highest}, not {quoted(text)}"
        )
    return limit


def _size(what: str, text: str) -> int:
    try:
        size = parse_size(text)
    except ValueError:
        size = 0
    if not LEAST_MEM <= size <= MOST_MEM:
        raise ValueError(
            f"{what} must be a size from 1 MiB to 1024 TiB, such as 64G, not {quoted(text)}"
        )
    return size
