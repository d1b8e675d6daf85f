# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Reader of traces in any of the known formats."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Final

from tf_malleable.model.units import quoted
from tf_malleable.simulate.engine.workload import Assumed, Workload
from tf_malleable.simulate.traces import helios, pai, swf
from tf_malleable.simulate.traces.helios import read_helios
from tf_malleable.simulate.traces.pai import read_pai
from tf_malleable.simulate.traces.philly import read_philly
from tf_malleable.simulate.traces.swf import read_swf

FORMATS: Final = ("swf", "philly", "helios", "pai")

_SUFFIXES: Final = {".swf": "swf", ".json": "philly"}
_CSV: Final = ".csv"
_ALLOWED: Final = f"{', '.join(FORMATS[:-1])} or {FORMATS[-1]}"
# A JSON file may be one line.
_FIRST_CHARACTERS: Final = 4096


def read_trace(
    path: Path,
    assumed: Assumed,
    format: str | None = None,  # noqa: A002 - the word for it
    *,
    trust_estimates: bool = False,
) -> Workload:
    """Return the jobs of a trace.

    Args:
        path: The trace.
        assumed: Assumptions about what the trace does not say of its jobs.
        format: One of FORMATS; by default detected from the file's suffix or its first line.
        trust_estimates: True to use the requested time as the expected run time; for traces
            in the Standard Workload Format only, as the others have no such time.

    Raises:
        ValueError: The format is unknown, the file cannot be read or is invalid, or there are
            no jobs; the message is one sentence.
    """
    chosen = _format_of(path) if format is None else format
    readers: dict[str, Callable[[Path, Assumed], Workload]] = {
        "swf": partial(read_swf, trust_estimates=trust_estimates),
        "philly": read_philly,
        "helios": read_helios,
        "pai": read_pai,
    }
    if chosen not in readers:
        raise ValueError(f"a trace's format must be {_ALLOWED}, not {quoted(chosen)}")
    if trust_estimates and chosen != "swf":
        raise ValueError(f"{path} has no users' estimates to trust: only swf traces have them")
    return readers[chosen](path, assumed)


def is_trace(path: Path) -> bool:
    """Return whether a file has the suffix of a trace: .swf, .json or .csv."""
    return path.suffix.lower() in {*_SUFFIXES, _CSV}


def _format_of(path: Path) -> str:
    known = _SUFFIXES.get(path.suffix.lower()) or _told_by(_first_line(path))
    if known is None:
        raise ValueError(f"cannot tell the format of {path}: say that it is {_ALLOWED}")
    return known


def _first_line(path: Path) -> str:
    """Return the first line that is not empty, without white space around it."""
    try:
        with path.open(encoding="utf-8-sig", errors="replace") as file:
            while line := file.readline(_FIRST_CHARACTERS):
                if found := line.strip():
                    return found
    except OSError as error:
        raise ValueError(f"cannot read {path}: {error.strerror}") from None
    return ""


def _told_by(line: str) -> str | None:
    fields = [field.strip() for field in line.split(",")]
    if line.startswith(";") or len(line.split()) == swf.FIELDS:
        return "swf"
    if line.startswith("["):
        return "philly"
    if len({*fields} & {*helios.COLUMNS}) > len(helios.COLUMNS) / 2:
        return "helios"
    is_pai_job = len(fields) == len(pai.COLUMNS) and fields[3] in pai.STATUSES
    if is_pai_job or len({*fields} & {*pai.COLUMNS}) > len(pai.COLUMNS) / 2:
        return "pai"
    return None
