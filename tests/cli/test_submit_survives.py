# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Jobs of tfm submit survive terminals, controllers and reboots that end at random moments.

Each round is a fresh account with a handful of jobs of all kinds. The seeds are printed; TFM_ROUNDS
sets the number of rounds and TFM_SEED the first seed.
"""

from __future__ import annotations

import os
import random
import re
import select
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from tests.support.accounts import Account
from tests.support.controllers import wait_for
from tests.support.deadline import DEADLINE

ROUNDS = int(os.environ.get("TFM_ROUNDS", "2"))
FIRST_SEED = int(os.environ.get("TFM_SEED", "1"))

# What the program of a job does: notes its begin, computes, notes its end, and exits. The later
# attempts of one that fails at first succeed.
PROGRAM = """
key=$1${TF_MALLEABLE_ARRAY_INDEX:+[$TF_MALLEABLE_ARRAY_INDEX]}
echo "$key begin" >> "$2"
sleep "$3"
code=$4
[ "$5" = once ] && [ "$(grep -cFx "$key begin" "$2")" -gt 1 ] && code=0
echo "$key end" >> "$2"
exit "$code"
"""


@dataclass(frozen=True)
class Kind:
    """A kind of job.

    Attributes:
        options: Options of tfm submit.
        code: Exit code of the program, unless it is interrupted.
        seconds: Longest run time of the program.
        fails: "once" if only the first run fails, otherwise "always".
        runs: Number of runs, unless it is interrupted.
        indices: Number of jobs.
    """

    options: tuple[str, ...] = ()
    code: int = 0
    seconds: float = 1.0
    fails: str = "always"
    runs: int = 1
    indices: int = 1

    @property
    def may_run_again(self) -> bool:
        return bool({"--requeue", "--retries"} & {*self.options})

    @property
    def final_code(self) -> int:
        return 0 if self.fails == "once" else self.code


KINDS = {
    "plain": Kind(seconds=4.0),
    "short": Kind(seconds=0.02),
    "long": Kind(seconds=6.0),
    "fails": Kind(code=3),
    "array": Kind(("--array", "1-3%1"), seconds=0.4, indices=3),
    "retries": Kind(("--retries", "2"), code=4, seconds=0.5, fails="once", runs=2),
    "requeue": Kind(("--requeue",), seconds=4.0),
    "requeue-fails": Kind(("--requeue",), code=5, seconds=0.3),
    "limit": Kind(("--time-limit", "1s"), code=128 + signal.SIGTERM, seconds=600.0),
    "first": Kind(seconds=0.5),
    "after": Kind(("--after",), seconds=0.2),
}


@dataclass
class Round:
    """What is known of a round.

    Attributes:
        ids: Ids that tfm submit has printed, by kind.
        refused: Kinds that tfm submit has refused to submit, with what it has said.
        reboots: Of each job stored at a reboot, whether it had started, and what exit was recorded;
            by output.
        orderly: Whether the processes got SIGTERM before the reboot.
        slowness: Seconds that this machine takes to submit a job, at least 1.
    """

    account: Account
    ledger: Path
    random: random.Random
    ids: dict[str, list[str]] = field(default_factory=dict)
    refused: dict[str, str] = field(default_factory=dict)
    reboots: list[dict[str, tuple[bool, str]]] = field(default_factory=list)
    orderly: bool = False
    slowness: float = 1.0

    @property
    def summary(self) -> str:
        """What happened, in one line."""
        jobs = sum(map(len, self.ids.values()))
        how = "orderly reboots" if self.orderly else "reboots"
        stored = [len(each) for each in self.reboots]
        return f"{jobs} jobs, refused {self.refused}, {how} with stored jobs: {stored}"

    def lines(self) -> list[str]:
        return self.ledger.read_text().splitlines()

    def submit(self, name: str) -> None:
        """Submit a job from a terminal, which may be closed at any moment."""
        kind = KINDS[name]
        options = [*kind.options]
        if name == "after":
            if not self.ids.get("first"):
                return
            options += self.ids["first"]
        share = 1.0 if name == "limit" else self.random.random()
        seconds = f"{kind.seconds * share * self.slowness:.3f}"
        program = ["sh", "-c", PROGRAM, "sh", name, str(self.ledger), seconds]
        program += [str(kind.code), kind.fails]
        is_patient = self.random.random() < 0.85
        patience = DEADLINE if is_patient else self.random.uniform(0.0, 1.5) * self.slowness
        said, code = in_terminal(
            self.account,
            ["submit", "--max", "1", "--name", name, *options, "--", *program],
            kind.indices,
            patience,
        )
        self.ids[name] = re.findall(r"^(\d+)\r?$", said, re.MULTILINE)
        if code > 0 and not self.ids[name]:
            self.refused[name] = said

    def reboot(self) -> None:
        """End all processes, as a power failure or systemd does, and start the host again."""
        if self.orderly:
            self.account.terminate(1.0)
        else:
            self.account.freeze()
        self.note_stored()
        self.account.kill()
        with self.ledger.open("a") as file:
            file.write("reboot\n")
        self.account.boot()

    def note_stored(self) -> None:
        found = {}
        for job in self.account.stored():
            exit_file = Path(job["output"]).with_suffix(".exit")
            code = exit_file.read_text() if exit_file.exists() else ""
            found[job["output"]] = (job["started"], code)
        self.reboots.append(found)


def in_terminal(
    account: Account, arguments: list[str], lines: int, patience: float
) -> tuple[str, int]:
    """Run tfm in a terminal that is closed once it has printed so many ids, or after seconds.

    Returns:
        What it has printed, and its exit code; negative after a signal.
    """
    child, terminal = os.forkpty()
    if child == 0:
        command = account.command(*arguments)
        with suppress(OSError):
            os.chdir("/")
            os.execvpe(command[0], command, account.environment)
        os._exit(126)
    said = b""
    end = time.monotonic() + patience
    while len(re.findall(rb"^\d+\r\n", said, re.MULTILINE)) < lines:
        if not select.select([terminal], [], [], max(0.0, end - time.monotonic()))[0]:
            break
        try:
            said += os.read(terminal, 1 << 16)
        except OSError:  # All processes in it have ended.
            break
    os.close(terminal)
    _, status = os.waitpid(child, 0)
    return said.decode(), os.waitstatus_to_exitcode(status)


@contextmanager
def meanwhile(seconds: float, what: Any) -> Iterator[None]:
    """Do something so long after the begin of a with statement, which waits for it."""
    failures: list[BaseException] = []

    def act() -> None:
        try:
            time.sleep(seconds)
            what()
        except BaseException as error:
            failures.append(error)

    thread = threading.Thread(target=act)
    thread.start()
    try:
        yield
    finally:
        thread.join()
    if failures:
        raise failures[0]


def play(played: Round) -> None:
    """Submit the jobs, and have things happen meanwhile."""
    chance, account = played.random, played.account
    began = time.monotonic()
    assert account.tfm("submit", "--name", "slow", "--", "true").returncode == 0
    played.slowness = max(1.0, time.monotonic() - began)
    names = chance.sample([name for name in KINDS if name != "after"], 6)
    if "first" in names:
        names.insert(chance.randint(names.index("first") + 1, len(names)), "after")
    played.orderly = chance.random() < 0.25
    events = [account.kill_controller] * chance.randint(0, 2)
    events += [played.reboot] * chance.choice([0, 1, 1, 1, 2])
    chance.shuffle(events)
    moments = sorted(chance.uniform(0, len(names) + 1) for _ in events)
    for index, name in enumerate(names):
        due = [when for when in moments if int(when) == index]
        if not due:
            played.submit(name)
        else:
            with meanwhile((due[0] - index) * played.slowness, events.pop(0)):
                played.submit(name)
    for event in events:
        time.sleep(chance.uniform(0.0, played.slowness))
        event()


def check(played: Round) -> None:
    """Wait for all jobs that were submitted, and compare what happened with what is said."""
    ids = [each for some in played.ids.values() for each in some]
    waited = played.account.tfm("wait", *ids)
    said = dict(re.findall(r"^job (\d+) \(.*?\): (.*)$", waited.stdout, re.MULTILINE))
    wait_for(lambda: not played.account.stored())
    records = played.account.history()
    by_id = {each["id"]: each for each in records}
    assert len(waited.stdout.splitlines()) == len(ids), (waited.stdout, waited.stderr)
    codes = []
    for line, (name, number) in zip(
        waited.stdout.splitlines(),
        [(name, each) for name, some in played.ids.items() for each in some],
        strict=True,
    ):
        assert number in by_id, f"job {number} ({name}) is not in the history"
        same = [each for each in records if each["output"] == by_id[number]["output"]]
        last = max(same, key=lambda each: each["ended"])
        how = last["outcome"] + (f" ({last['cause']})" if last["cause"] else "")
        how += "" if last["exit_code"] is None else f", exit code {last['exit_code']}"
        assert line == f"job {last['id']} ({last['name']}): {how}", said
        code = last["exit_code"]
        codes.append((0 if last["outcome"] == "finished" else 1) if code is None else code)
        check_job(played, name, last)
    assert waited.returncode == next((each for each in codes if each), 0)
    for name in KINDS:
        if name in played.refused:
            assert f"{name} begin" not in played.lines(), played.refused[name]
        if not KINDS[name].may_run_again and name != "array":
            assert played.lines().count(f"{name} begin") <= 1, f"{name} has run again"


def check_job(played: Round, name: str, last: dict[str, Any]) -> None:
    """Compare the last record of a job with what its program has noted."""
    kind, lines = KINDS[name], played.lines()
    key = last["name"]
    begins, ends = lines.count(f"{key} begin"), lines.count(f"{key} end")
    stories = [each[last["output"]] for each in played.reboots if last["output"] in each]
    # It ran, and no exit was recorded.
    is_interrupted = any(has_started and not code for has_started, code in stories)
    told = f"{key}: {last['outcome']} {last['exit_code']} {last['cause']}, ran {begins}, {stories}"
    if last["outcome"] == "interrupted":
        # Each interruption takes one of the --retries, as does each failure.
        most = 1 + int(kind.options[1]) if name == "retries" else 1
        assert not kind.may_run_again or (name == "retries" and len(stories) == 2), told
        assert is_interrupted, told
        assert begins <= most, told
        assert (last["exit_code"], last["cause"]) == (None, "reboot"), told
        return
    if played.orderly and last["cause"] == "signal 15" and not kind.may_run_again:
        assert played.reboots, told
        assert begins <= 1, told  # Its first line may not have been written yet.
        assert not ends, told
        return
    if name == "limit":
        assert (last["outcome"], last["cause"]) == ("cancelled", "time-limit"), told
        assert begins == 1, told
        return
    assert last["exit_code"] == kind.final_code, told
    assert last["outcome"] == ("failed" if kind.final_code else "finished"), told
    assert last["cause"] is None, told
    assert kind.runs <= begins <= kind.runs + (len(stories) if kind.may_run_again else 0), told
    if name == "after":
        others = [index for index, line in enumerate(lines) if line.startswith("first ")]
        # It may have been interrupted before its first line.
        assert max(others, default=-1) < lines.index("after begin"), lines


def check_array(played: Round) -> None:
    """No more than one job of the array ran at once."""
    running: set[str] = set()
    for line in played.lines():
        if line == "reboot":
            running.clear()
        elif line.startswith("array"):
            key, what = line.split()
            running.add(key) if what == "begin" else running.discard(key)
            assert len(running) <= 1, played.lines()


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(FIRST_SEED, FIRST_SEED + ROUNDS))
def test_nothing_is_lost_and_every_outcome_is_right(tmp_path, seed):
    tmp_path.chmod(0o700)
    ledger = tmp_path / "ledger"
    ledger.touch()
    played = Round(Account(tmp_path), ledger, random.Random(seed))
    try:
        play(played)
        # Whatever comes next starts a controller, which resumes what is stored.
        last = played.account.tfm("submit", "--name", "last", "--", "true")
        assert (last.returncode, last.stdout != "") == (0, True), last.stderr
        check(played)
        check_array(played)
        print(f"seed {seed}: {played.summary}")
    except BaseException:
        print(f"seed {seed}\n{played}\n{ledger.read_text()}")
        log = played.account.outputs.parent / "controller.log"
        print(log.read_text() if log.exists() else "no log")
        raise
    finally:
        played.account.kill()
