# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""The file that keeps a host's power curve between runs of the controller."""

from __future__ import annotations

import os
from pathlib import Path

import msgspec

from tf_malleable.model.power import PowerCurve

_FORM = 1


class CurveFile(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What is in the file, as JSON.

    Attributes:
        form: Version of this form.
        points: Pairs of load, 0 … 1, and watts.
        meter: What measured them; empty if a person gave them.
    """

    form: int
    points: list[tuple[float, float]]
    meter: str = ""


def read_curve(path: Path) -> PowerCurve | None:
    """Return the curve in a file; None if there is no file.

    Raises:
        ValueError: It cannot be read or is no curve; the message is one sentence.
    """
    try:
        found = msgspec.json.decode(path.read_bytes(), type=CurveFile)
        if found.form != _FORM:
            raise ValueError(f"its form is {found.form}, not {_FORM}")
        return PowerCurve(tuple(found.points))
    except FileNotFoundError:
        return None
    except OSError as error:
        raise ValueError(f"cannot read the power curve {path}: {error.strerror}") from None
    except ValueError as error:  # msgspec's errors are such, too.
        raise ValueError(f"{path} has no power curve: {error}") from None


def write_curve(path: Path, curve: PowerCurve, meter: str) -> None:
    """Replace the curve in a file, at once or not at all.

    Raises:
        ValueError: It cannot be written; the message is one sentence.
    """
    document = CurveFile(_FORM, list(curve.points), meter)
    beside = path.with_name(f"{path.name}.new")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        beside.write_bytes(msgspec.json.format(msgspec.json.encode(document)) + b"\n")
        os.replace(beside, path)
    except OSError as error:
        raise ValueError(f"cannot write the power curve {path}: {error.strerror}") from None
