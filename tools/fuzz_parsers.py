# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Fuzzes the parsers of tests/support/parsers.py with Atheris, which is libFuzzer for Python.

An input that breaks a rule ends the parser's run, and is kept in build/fuzz. Moved to the folder of
the parser in tests/fuzz/corpus, it becomes a test.

    python tools/fuzz_parsers.py --seconds 600 [NAME ...]
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

ROOT = Path(__file__).parents[1]
FOUND = ROOT / "build" / "fuzz"
LONGEST = 8192
# In seconds, of a parser that is observed by Atheris, on a machine that has other work.
SLOWEST = 30
MOST_MEBIBYTES = 2048


def fuzz(name: str, options: list[str]) -> None:
    """Fuzz one parser in this process, until libFuzzer ends it."""
    import atheris

    with atheris.instrument_imports(include=["tf_malleable"]):
        from tests.support.parsers import PARSERS, check
    parser = PARSERS[name]
    atheris.Setup([sys.argv[0], *options], lambda data: check(parser, data))
    atheris.Fuzz()


def run(name: str, seconds: int) -> bool:
    """Fuzz one parser in another process; return whether it has kept its rules."""
    corpus, log = FOUND / name, FOUND / f"{name}.log"
    corpus.mkdir(parents=True, exist_ok=True)
    command = [
        sys.executable, __file__, "--one", name,
        f"-max_total_time={seconds}", f"-max_len={LONGEST}", f"-timeout={SLOWEST}",
        f"-rss_limit_mb={MOST_MEBIBYTES}", f"-dict={FOUND / 'words'}",
        f"-artifact_prefix={FOUND / name}-",
        str(corpus), str(ROOT / "tests" / "fuzz" / "corpus" / name),
    ]  # fmt: skip
    with log.open("wb") as file:
        done = subprocess.run(command, cwd=ROOT, stdout=file, stderr=file, check=False)
    print(f"{name}: {'kept its rules' if done.returncode == 0 else f'see {log}'}", flush=True)
    return done.returncode == 0


def main() -> int:
    """Fuzz all parsers, or those that are named."""
    sys.path.insert(0, str(ROOT))
    if sys.argv[1:2] == ["--one"]:
        fuzz(sys.argv[2], sys.argv[3:])
    from tests.support.malformed import WORDS
    from tests.support.parsers import PARSERS

    asked = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    asked.add_argument("--seconds", type=int, default=600, help="time for all of them together")
    asked.add_argument("name", nargs="*", choices=[*PARSERS, []], help="default: all")
    said = asked.parse_args()
    names, workers = said.name or [*PARSERS], os.cpu_count() or 1
    FOUND.mkdir(parents=True, exist_ok=True)
    escaped = ("".join(f"\\x{byte:02x}" for byte in word) for word in WORDS if 0 < len(word) < 64)
    (FOUND / "words").write_text("".join(f'"{word}"\n' for word in escaped))
    each = max(1, said.seconds * workers // len(names))
    with ThreadPoolExecutor(workers) as pool:
        kept = list(pool.map(lambda name: run(name, each), names))
    return 0 if all(kept) else 1


if __name__ == "__main__":
    sys.exit(main())
