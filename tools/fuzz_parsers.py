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
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

ROOT = Path(__file__).parents[1]
CORPUS = ROOT / "tests" / "fuzz" / "corpus"
FOUND = ROOT / "build" / "fuzz"
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


def fuzz(name: str, options: list[str]) -> None:
    """Fuzz one parser in this process, until libFuzzer ends it."""
    import atheris

    with atheris.instrument_imports(include=["tf_malleable"]):
        from tests.support.parsers import PARSERS, check
    parser = PARSERS[name]
    atheris.Setup([sys.argv[0], *options], lambda data: check(parser, data))
    atheris.Fuzz()


def run(name: str, seconds: int, seed: int) -> bool:
    """Fuzz one parser in another process; return whether it has kept its rules."""
    corpus, log = FOUND / name, FOUND / f"{name}.log"
    corpus.mkdir(parents=True, exist_ok=True)
    program = [sys.executable, __file__, "--one", name] if name != SHIM else [str(SHIM_PROGRAM)]
    command = [
        *program,
        f"-max_total_time={seconds}", f"-seed={seed}", f"-max_len={LONGEST}",
        f"-timeout={SLOWEST}", f"-rss_limit_mb={MOST_MEBIBYTES}", f"-dict={FOUND / 'words'}",
        f"-artifact_prefix={FOUND / name}-",
        # What is found goes to the first one. The shim writes its own good inputs to the last one.
        str(corpus), str(CORPUS / name), str(corpus),
    ]  # fmt: skip
    with log.open("wb") as file:
        done = subprocess.run(command, cwd=ROOT, stdout=file, stderr=file, check=False)
    said = log.read_bytes()
    if done.returncode == 0:
        inputs = sum(map(int, _RUNS.findall(said)))
        print(f"{name}: kept its rules for {inputs:,} inputs", flush=True)
        return True
    print(f"{name}: broke a rule, see {log}", flush=True)
    if written := _WRITTEN.search(said):
        print(_told(name, Path(os.fsdecode(written[1]))), flush=True)
    return False


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
    if sys.argv[1:2] == ["--one"]:
        fuzz(sys.argv[2], sys.argv[3:])
    if sys.argv[1:2] == ["--shorten"]:
        name, found, short = sys.argv[2:]
        Path(short).write_bytes(shortened(name, Path(found).read_bytes()))
        return 0
    from tests.support.malformed import WORDS
    from tests.support.parsers import PARSERS

    all_names = [*PARSERS, *([SHIM] if SHIM_PROGRAM.exists() else [])]
    asked = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    asked.add_argument("--seconds", type=int, default=60, help="time for each of them")
    asked.add_argument("--seed", type=int, help="that of another run, to repeat it; default: new")
    asked.add_argument("--jobs", type=int, default=os.cpu_count(), help="how many at a time")
    asked.add_argument("name", nargs="*", choices=[*all_names, []], help="default: all")
    said = asked.parse_args()
    seed = random.randrange(1, SEEDS) if said.seed is None else said.seed
    names = said.name or all_names
    FOUND.mkdir(parents=True, exist_ok=True)
    escaped = ("".join(f"\\x{byte:02x}" for byte in word) for word in WORDS if 0 < len(word) < 64)
    (FOUND / "words").write_text("".join(f'"{word}"\n' for word in escaped))
    print(f"{len(names)} parsers, {said.seconds} s each, with --seed {seed}", flush=True)
    with ThreadPoolExecutor(said.jobs) as pool:
        kept = list(pool.map(lambda name: run(name, said.seconds, seed), names))
    return 0 if all(kept) else 1


if __name__ == "__main__":
    sys.exit(main())
