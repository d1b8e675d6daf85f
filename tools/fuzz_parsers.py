# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Fuzzes the parsers of what others write with libFuzzer, each for some seconds.

These are the parsers of tests/support/parsers.py, with Atheris, which is libFuzzer for Python, and
the shim's, as a program. An input that breaks a rule ends the parser's run; it is made as short as
a minute allows, printed, and kept in build/fuzz. Moved to the folder of the parser in
tests/fuzz/corpus, it becomes a test.

    python tools/fuzz_parsers.py --seconds 60 [--seed N] [NAME ...]
"""

from __future__ import annotations

import argparse
import base64
import os
import random
import re
import subprocess
import sys
import time
import traceback
from collections.abc import Callable, Sequence
from contextlib import redirect_stderr, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

ROOT = Path(__file__).parents[1]
CORPUS = ROOT / "tests" / "fuzz" / "corpus"
FOUND = ROOT / "build" / "fuzz"
# libFuzzer's dictionary, beside what it finds.
WORDS = "words"
SHIM = "shim"
SHIM_PROGRAM = ROOT / "build" / "cc-fuzz" / "cc" / "tests" / "tier_fuzz"
LONGEST = 8192
# In seconds, of a parser that is observed by Atheris, on CPUs that others need for a minute.
SLOWEST = 120
MOST_MEBIBYTES = 2048
SHORTENING_SECONDS = 60
SEEDS = 1 << 31
_RUNS = re.compile(rb"^Done (\d+) runs", re.MULTILINE)
_WRITTEN = re.compile(rb"Test unit written to (.+)")


def shorten(data: bytes, is_bad: Callable[[bytes], bool], until: float = float("inf")) -> bytes:
    """Return a bad input without the pieces that it does not need to be bad.

    Args:
        data: The input.
        is_bad: Whether another input is bad in the same way.
        until: Time of time.monotonic() at which to return what has been found.
    """
    size = len(data)
    while size:
        at = 0
        while at < len(data):
            shorter = data[:at] + data[at + size :]
            if time.monotonic() > until:
                return data
            if is_bad(shorter):
                data = shorter
            else:
                at += size
        size //= 2
    return data


def shortened(name: str, data: bytes) -> bytes:
    """Return an input that breaks a rule of a parser, as short as possible."""
    from tests.support.parsers import PARSERS, check

    def raised(said: bytes) -> type[Exception] | None:
        try:
            check(PARSERS[name], said)
        except Exception as error:
            return type(error)  # Not its message, which may quote the input.
        return None

    kind = raised(data)
    until = time.monotonic() + SHORTENING_SECONDS
    return shorten(data, lambda said: raised(said) is kind, until)


@dataclass(frozen=True)
class Fuzzing:
    """How parsers are fuzzed.

    Attributes:
        seconds: Time for each of them.
        seed: Seed of libFuzzer.
        out: Folder of logs, and of inputs that are new or break a rule.
    """

    seconds: int
    seed: int
    out: Path

    def run(self, names: Sequence[str], jobs: int) -> bool:
        """Fuzz parsers, some at a time; return whether all have kept their rules.

        Each has a process of its own, which is forked from this one: to import the package, and to
        have it observed, takes longer than a minute on CPUs that others need.
        """
        waiting, running, kept = [*reversed(names)], dict[int, str](), True
        while waiting or running:
            while waiting and len(running) < jobs:
                name = waiting.pop()
                running[self._start(name)] = name
            child, status = os.wait()
            kept &= self._is_kept(running.pop(child), os.waitstatus_to_exitcode(status))
        return kept

    def _start(self, name: str) -> int:
        """Fuzz a parser in a new process, until libFuzzer ends it; return its pid."""
        found = self.out / name
        found.mkdir(parents=True, exist_ok=True)
        options = [
            f"-max_total_time={self.seconds}", f"-seed={self.seed}", f"-max_len={LONGEST}",
            f"-timeout={SLOWEST}", f"-rss_limit_mb={MOST_MEBIBYTES}", f"-dict={self.out / WORDS}",
            f"-artifact_prefix={found}-",
            # What is found goes to the first one. The shim writes its good inputs to the last one.
            str(found), str(CORPUS / name), str(found),
        ]  # fmt: skip
        sys.stdout.flush()
        if child := os.fork():
            return child
        try:
            log = os.open(self._log(name), os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
            os.dup2(log, 1)
            os.dup2(log, 2)
            os.chdir(ROOT)
            if name == SHIM:
                os.execv(SHIM_PROGRAM, [str(SHIM_PROGRAM), *options])
            fuzz(name, options)
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(1)

    def _log(self, name: str) -> Path:
        return self.out / f"{name}.log"

    def _is_kept(self, name: str, code: int) -> bool:
        """Report how the fuzzing of a parser has ended; return whether it has kept its rules."""
        said = self._log(name).read_bytes()
        if code == 0:
            inputs = sum(map(int, _RUNS.findall(said)))
            print(f"{name}: kept its rules for {inputs:,} inputs", flush=True)
            return True
        print(f"{name}: broke a rule, see {self._log(name)}", flush=True)
        if written := _WRITTEN.search(said):
            print(_told(name, Path(os.fsdecode(written[1]))), flush=True)
        return False


def fuzz(name: str, options: Sequence[str]) -> NoReturn:
    """Fuzz one parser in this process, until libFuzzer ends it."""
    import atheris

    from tests.support.parsers import PARSERS, check

    parser = PARSERS[name]
    atheris.Setup([sys.argv[0], *options], lambda data: check(parser, data))
    atheris.Fuzz()
    raise AssertionError("libFuzzer has not ended the process")


def _told(name: str, found: Path) -> str:
    """Make an input that broke a rule shorter; return how to add it to the corpus."""
    if name == SHIM:
        command = [
            str(SHIM_PROGRAM), "-minimize_crash=1", f"-max_total_time={SHORTENING_SECONDS}",
            f"-exact_artifact_path={found}.short", str(found),
        ]  # fmt: skip
    else:
        command = [sys.executable, __file__, "--shorten", name, str(found), f"{found}.short"]
    # One that takes too long, or too much memory, stays as it is.
    with suppress(subprocess.TimeoutExpired):
        subprocess.run(
            command, cwd=ROOT, capture_output=True, timeout=2 * SHORTENING_SECONDS, check=False
        )
    short = Path(f"{found}.short")
    data = (short if short.exists() else found).read_bytes()
    return (
        f"  {data[:80]!r}, {len(data)} bytes\n"
        f"  base64 -d <<<{base64.b64encode(data).decode()} >tests/fuzz/corpus/{name}/NAME"
    )


def main() -> int:
    """Fuzz all parsers, or those that are named."""
    sys.path.insert(0, str(ROOT))
    if sys.argv[1:2] == ["--shorten"]:
        name, found, short = sys.argv[2:]
        Path(short).write_bytes(shortened(name, Path(found).read_bytes()))
        return 0
    import atheris

    with (
        Path(os.devnull).open("w") as nowhere,
        redirect_stderr(nowhere),  # A line for each module.
        atheris.instrument_imports(include=["tf_malleable"]),
    ):
        from tests.support import malformed
        from tests.support.parsers import PARSERS

    all_names = [*PARSERS, *([SHIM] if SHIM_PROGRAM.exists() else [])]
    asked = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    asked.add_argument("--seconds", type=int, default=60, help="time for each of them")
    asked.add_argument("--seed", type=int, help="that of another run, to repeat it; default: new")
    asked.add_argument("--jobs", type=int, default=os.cpu_count(), help="how many at a time")
    asked.add_argument("--out", type=Path, default=FOUND, help="folder of logs and new inputs")
    asked.add_argument("name", nargs="*", choices=[*all_names, []], help="default: all")
    said = asked.parse_args()
    seed = random.randrange(1, SEEDS) if said.seed is None else said.seed
    names = said.name or all_names
    said.out.mkdir(parents=True, exist_ok=True)
    words = [word for word in malformed.WORDS if 0 < len(word) < 64]
    escaped = ("".join(f"\\x{byte:02x}" for byte in word) for word in words)
    (said.out / WORDS).write_text("".join(f'"{word}"\n' for word in escaped))
    print(f"{len(names)} parsers, {said.seconds} s each, with --seed {seed}", flush=True)
    return 0 if Fuzzing(said.seconds, seed, said.out.absolute()).run(names, said.jobs) else 1


if __name__ == "__main__":
    sys.exit(main())
