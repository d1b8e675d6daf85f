# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Starts trainings with members that come and go, and compares what they end with."""

from __future__ import annotations

import functools
import json
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

import tf_malleable
from tests.support import zygote
from tests.support.fake_mesh import Hub, Plan

SCRIPT = Path(__file__).parents[1] / "elastic" / "trainings.py"
# The machine may be slow; what takes longer hangs.
_SECONDS = 300


@dataclass(frozen=True)
class Ended:
    """A member that has ended."""

    code: int
    said: str
    values: dict[str, Any]


def plain(
    arguments: Sequence[str],
    out: Path,
    is_preloaded: bool = False,
    environment: Mapping[str, str] | None = None,
    script: Path = SCRIPT,
) -> Ended:
    """Train with Keras as it is; or, if preloaded, as `tfm run` starts a script."""
    variables = dict(environment or {})
    if is_preloaded:
        preload = Path(tf_malleable.__file__).parent / "preload"
        paths = [str(preload), *filter(None, [os.environ.get("PYTHONPATH")])]
        variables["PYTHONPATH"] = os.pathsep.join(paths)
    command = [sys.executable, "-W", "ignore", str(script), *arguments, str(out)]
    start = subprocess.Popen if is_preloaded else zygote.popen("keras")
    return _wait(_popen(start, command, variables), out)


def alone(
    arguments: Sequence[str],
    out: Path,
    script: Path = SCRIPT,
    environment: Mapping[str, str] | None = None,
    **settings: object,
) -> Ended:
    """Train with one member and no mesh."""
    return _wait(_start("", "alone", arguments, out, script, settings, environment), out)


@functools.cache
def ended_alone(training: str, shards: int) -> Ended:
    """Train with one member and no mesh, once for all tests; it must end in peace."""
    with tempfile.TemporaryDirectory() as folder:
        ended = alone([training], Path(folder) / "one.npz", shards=shards, threads=1)
    assert ended.code == 0, ended.said
    return ended


def together(
    plan: Plan,
    arguments: Sequence[str],
    folder: Path,
    script: Path = SCRIPT,
    **settings: Any,
) -> dict[str, Ended]:
    """Train with the members of a plan; all are started at once and wait for their step."""
    hub = Hub(plan, settings["shards"])
    names = list(dict.fromkeys(name for step in plan.members.values() for name in step))
    outs = {name: folder / f"{name}.npz" for name in names}
    started = {
        name: _start(hub.address, name, arguments, outs[name], script, settings) for name in names
    }
    try:
        return {name: _wait(started[name], outs[name]) for name in names}
    finally:
        hub.close()
        for process in started.values():
            process.kill()


def differences(first: Mapping[str, Any], second: Mapping[str, Any]) -> list[str]:
    """Return the names of what differs, in one bit or in being there."""
    return [
        name
        for name in first.keys() | second.keys()
        if name not in first
        or name not in second
        or not np.array_equal(first[name], second[name], equal_nan=True)
    ]


def _start(
    address: Any,
    name: str,
    arguments: Sequence[str],
    out: Path,
    script: Path,
    settings: Mapping[str, object],
    environment: Mapping[str, str] | None = None,
) -> Any:
    said = {
        "address": address,
        "name": name,
        "script": str(script),
        "arguments": [*arguments, str(out)],
        "settings": {"seed": 1, **settings},
    }
    module = ["-m", "tests.support.elastic_member", json.dumps(said)]
    return _popen(zygote.popen("keras"), [sys.executable, *module], environment or {})


def _popen(start: Any, command: Sequence[str], environment: Mapping[str, str]) -> Any:
    threads = {"TF_NUM_INTRAOP_THREADS": "1", "TF_NUM_INTEROP_THREADS": "1"}
    return start(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env={**os.environ, **threads, "TF_CPP_MIN_LOG_LEVEL": "3", **environment},
        cwd=Path(__file__).parents[2],
    )


def _wait(process: Any, out: Path) -> Ended:
    try:
        said, _ = process.communicate(timeout=_SECONDS)
    except subprocess.TimeoutExpired:
        process.send_signal(signal.SIGABRT)
        said, _ = process.communicate()
        raise AssertionError(said) from None
    values = dict(np.load(out)) if out.exists() else {}
    return Ended(process.returncode, said, values)
