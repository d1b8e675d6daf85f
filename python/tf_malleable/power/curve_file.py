# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""File of a host's power curve, kept between runs of the controller."""

from __future__ import annotations

import os
from pathlib import Path

import msgspec

from tf_malleable.api.validation import decode_json
from tf_malleable.linux.trusted_folder import TrustedFolder, open_trusted
from tf_malleable.model.power import PowerCurve

_FORM = 1


class CurveFile(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Content of the file, as JSON.

    Attributes:
        form: Version of the format.
        points: Pairs of load, 0 … 1, and watts.
        meter: Meter that measured the points; empty if a person gave them.
    """

    form: int
    points: list[tuple[float, float]]
    meter: str = ""


def read_curve(path: Path) -> PowerCurve | None:
    """Return the curve in a file; None if there is no file.

    Raises:
        ValueError: The file cannot be read or is not a curve; the message is one sentence.
    """
    try:
        found = decode_json(_content(path), CurveFile)
        if found.form != _FORM:
            raise ValueError(f"its form is {found.form}, not {_FORM}")
        return PowerCurve(tuple(found.points))
    except FileNotFoundError:
        return None
    except OSError as error:
        raise ValueError(f"cannot read the power curve {path}: {error.strerror}") from None
    except ValueError as error:
        raise ValueError(f"{path} has no power curve: {error}") from None


def _content(path: Path) -> bytes:
    with open(open_trusted(path, os.O_RDONLY), "rb") as file:
        return file.read()


def write_curve(path: Path, curve: PowerCurve, meter: str) -> None:
    """Replace the curve in a file, atomically.

    Raises:
        ValueError: The file cannot be written; the message is one sentence.
    """
    document = CurveFile(_FORM, list(curve.points), meter)
    beside = path.with_name(f"{path.name}.new")
    try:
        TrustedFolder(path.parent, 0o700).close()
        beside.write_bytes(msgspec.json.format(msgspec.json.encode(document)) + b"\n")
        os.replace(beside, path)
    except OSError as error:
        raise ValueError(f"cannot write the power curve {path}: {error.strerror}") from None
