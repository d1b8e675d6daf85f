# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""One generation at a time, whose server's quota is halved after a third and given back."""

from __future__ import annotations

import itertools
import json
import os
import signal
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np
from matplotlib.figure import Figure

from benchmarks.common.command_line import BenchmarkError, sayer
from benchmarks.common.configurations import TFM
from benchmarks.common.estimates import estimate, once
from benchmarks.common.results import Results
from benchmarks.common.rows import Row, Target
from benchmarks.llama.build import random_model, server
from tests.support import cgroups
from tf_malleable.figures import style

_QUOTAS: Final = (2.0, 1.0, 2.0)
_TOKENS: Final = 600
_READY_SECONDS: Final = 60.0
# After a change the period of the quota has to end first; see cgroups.PERIOD.
_SETTLED_SECONDS: Final = 0.25
# Tokens of which one point of the picture is the speed.
_WINDOW: Final = 20
_TARGET: Final = Target(0.97, at_least=True)


@dataclass(frozen=True)
class Way:
    """A way to start the server.

    Attributes:
        threads: Number of its threads.
        is_followed: Whether it is a program of `tfm run`.
    """

    threads: int
    is_followed: bool

    @property
    def name(self) -> str:
        """Name for people."""
        threads = f"{self.threads} thread{'s' * (self.threads > 1)}"
        return f"{threads}, {'tfm run' if self.is_followed else 'stock'}"

    def command(self, built: Path, model: Path, port: int) -> list[str]:
        """Return the command that starts it."""
        own = [TFM, "run", "--follow-cgroup", "--"] if self.is_followed else []
        threads = ["-t", str(self.threads), "-tb", str(self.threads)]
        where = ["--host", "127.0.0.1", "--port", str(port)]
        return [*own, str(built), "-m", str(model), *where, *threads, "-np", "1", "--no-warmup"]


@dataclass(frozen=True)
class Generation:
    """What one generation took.

    Attributes:
        way: Name of the way.
        number: Number of the round.
        tokens: Tokens that came.
        at: When each came, in seconds from the first.
        changes: When the quota changed, in the same seconds.
    """

    way: str
    number: int
    tokens: tuple[int, ...]
    at: tuple[float, ...]
    changes: tuple[float, ...]

    def rates(self) -> tuple[float, ...]:
        """Return the tokens a second with each quota."""
        edges = [(0.0, self.changes[0]), *itertools.pairwise((*self.changes, self.at[-1]))]
        found = []
        for low, high in edges:
            within = [each for each in self.at if low + _SETTLED_SECONDS <= each <= high]
            found.append((len(within) - 1) / (within[-1] - within[0]))
        return tuple(found)


def run(rounds: int, threads: Sequence[int], cache: Path, out: Path) -> None:
    """Measure all ways in turns, print the result and write it to files.

    Raises:
        BenchmarkError: There are no cgroups here, or a server does not answer.
    """
    say = sayer()
    built, version = server(cache, say)
    model = random_model(cache)
    # What the others are compared with: as many threads as the quota has CPUs.
    ways = [Way(int(quota), is_followed=False) for quota in dict.fromkeys(_QUOTAS)]
    for number in threads:
        ways += [Way(number, is_followed=True), Way(number, is_followed=False)]
    results = Results("llama", out, version=version, quotas=_QUOTAS)
    found: list[Generation] = []
    ports = itertools.count(18_200 + os.getpid() % 1000)
    for number in range(rounds):
        first = number % len(ways)
        for way in ways[first:] + ways[:first]:
            found.append(_generate(way, number, way.command(built, model, next(ports))))
            say(f"{way.name}: {_text(found[-1])}")
        results.write(_rows(found, ways), generations=[vars(each) for each in found])
    _draw(found, ways, out / "generation.png")
    results.tell()


def _text(made: Generation) -> str:
    rates = zip(made.rates(), _QUOTAS, strict=True)
    said = ", ".join(f"{rate:.1f} with {quota:g} CPUs" for rate, quota in rates)
    return f"{said}, in tokens a second"


@contextmanager
def _started(command: Sequence[str]) -> Iterator[tuple[cgroups.Group, int]]:
    """Run the server in a cgroup of its own; yield that and its port, once it answers."""
    try:
        group = cgroups.make(f"tfm-benchmark-{os.getpid()}")
    except OSError as error:
        raise BenchmarkError(f"no cgroup can be made here, which takes root: {error}") from None
    port = int(command[command.index("--port") + 1])
    try:
        group.set_quota(_QUOTAS[0])
        process = subprocess.Popen(
            command,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            preexec_fn=lambda: group.add(os.getpid()),
        )
        end = time.monotonic() + _READY_SECONDS
        while not _is_ready(port):
            if time.monotonic() > end or process.poll() is not None:
                raise BenchmarkError(f"the server does not answer: {' '.join(command)}")
            time.sleep(0.1)
        yield group, port
        process.send_signal(signal.SIGTERM)
        process.wait(_READY_SECONDS)
    finally:
        group.remove()


def _is_ready(port: int) -> bool:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/health", timeout=5) as answer:
            return bool(answer.status == 200)
    except (urllib.error.URLError, ConnectionError, TimeoutError):
        return False


def _generate(way: Way, number: int, command: Sequence[str]) -> Generation:
    """Have a new server generate, and change its quota meanwhile."""
    with _started(command) as (group, port):
        for _ in _tokens(port, 20):  # Memory is touched, and threads exist.
            pass
        tokens: list[int] = []
        at: list[float] = []
        changes: list[float] = []
        for token in _tokens(port, _TOKENS):
            tokens.append(token)
            at.append(time.monotonic())
            if len(tokens) % (_TOKENS // len(_QUOTAS)) == 0 and len(changes) + 1 < len(_QUOTAS):
                group.set_quota(_QUOTAS[len(changes) + 1])
                changes.append(time.monotonic())
    start = at[0]
    return Generation(
        way.name,
        number,
        tuple(tokens),
        tuple(each - start for each in at),
        tuple(each - start for each in changes),
    )


def _tokens(port: int, count: int) -> Iterator[int]:
    """Yield the ids of generated tokens as they come."""
    wanted = {"prompt": "w1 w2", "n_predict": count, "temperature": 0, "stream": True}
    wanted |= {"ignore_eos": True, "return_tokens": True, "cache_prompt": False}
    request = urllib.request.Request(
        f"http://127.0.0.1:{port}/completion",
        json.dumps(wanted).encode(),
        {"Content-Type": "application/json"},
    )
    with urllib.request.urlopen(request, timeout=_READY_SECONDS) as answer:
        for line in answer:
            if line.startswith(b"data: "):
                yield from json.loads(line.removeprefix(b"data: ")).get("tokens", ())


def _rows(found: Sequence[Generation], ways: Sequence[Way]) -> list[Row]:
    """Return each way's speed relative to a server started with as many threads as the quota."""
    rows = []
    rounds = {(each.way, each.number): each.rates() for each in found}
    whole = sorted({each.number for each in found})
    for way in ways[len({*_QUOTAS}) :]:
        for part, quota in enumerate(_QUOTAS):
            started = Way(int(quota), is_followed=False).name
            ratios = [rounds[way.name, n][part] / rounds[started, n][part] for n in whole]
            target = _TARGET if way.is_followed else None
            label = f"{way.name}, quota {quota:g}{' again' if part > 1 else ''}"
            rows.append(Row("generation", label, "ratio", estimate([ratios]), target))
    texts = {each.tokens for each in found}
    return [*rows, Row("generation", "different texts", "", once(len(texts)), Target(1))]


def _draw(found: Sequence[Generation], ways: Sequence[Way], path: Path) -> None:
    """Draw the speed over the generated tokens: the median of the rounds of each way."""
    figure = Figure(figsize=(9, 4), layout="constrained")
    axes = figure.subplots()
    for number, way in enumerate(ways):
        at = np.array([each.at for each in found if each.way == way.name])
        seconds = np.median(at[:, _WINDOW:] - at[:, :-_WINDOW], axis=0)
        ends = np.arange(_WINDOW, at.shape[1])
        axes.plot(ends, _WINDOW / seconds, color=style.COLOURS[number], label=way.name)
    part = _TOKENS / len(_QUOTAS)
    for number, quota in enumerate(_QUOTAS):
        axes.annotate(
            f"quota of {quota:g} CPUs",
            ((number + 0.5) / len(_QUOTAS), 0.95),
            xycoords="axes fraction",
            ha="center",
        )
        axes.axvline((number + 1) * part, color="black", linewidth=0.5, linestyle=":")
    style.frame(axes, "y")
    axes.set_xlim(0, _TOKENS)
    axes.set_xlabel("tokens")
    axes.set_ylabel("tokens a second")
    axes.legend(frameon=False, loc="center right")
    style.write(figure, path)
