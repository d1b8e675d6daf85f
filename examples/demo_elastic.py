# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""A training that grows from one worker to three and loses one to kill -9, and one undisturbed.

Both end with the same weights, to the bit. The training is an ordinary Keras program.
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from command_line import Parser
from matplotlib.figure import Figure

from tf_malleable.cli.elastic import training_registry
from tf_malleable.figures import style
from tf_malleable.figures.formats import is_picture
from tf_malleable.model import OperationError
from tf_malleable.workload.interrupts import end_on_signals

REPOSITORY = Path(__file__).parent.parent
TRAINING = Path(__file__).with_name("trainings") / "digits.py"
EPOCHS = 40
STEPS = 23  # Batches of an epoch.
# After which share of the training more workers are started; for how long three train before
# one is killed.
GROWS_AFTER, TOGETHER_SECONDS = 0.1, 6.0
_LOOK_SECONDS = 0.25
_LONGEST_SECONDS = 300.0
_WEIGHTS = re.compile(r"accuracy [\d.]+, weights [0-9a-f]{16}")


class DemoError(Exception):
    """What went wrong, in one sentence."""


@dataclass
class Seen:
    """What was seen of a training.

    Attributes:
        workers: When each took part, by its process id: pairs of begin and last look.
        steps: Seconds and steps done.
        together: Since when there are three workers; None before.
        killed: When a worker was killed, and its process id.
        rescales: As the coordinator tells them.
        ends: What workers printed at the end.
    """

    workers: dict[int, list[list[float]]] = field(default_factory=dict)
    steps: list[tuple[float, int]] = field(default_factory=list)
    together: float | None = None
    killed: tuple[float, int] | None = None
    rescales: list[dict[str, Any]] = field(default_factory=list)
    ends: set[str] = field(default_factory=set)

    def look(self, now: float, status: dict[str, Any]) -> list[int]:
        """Note a coordinator's answer; return the ids of the workers that take part."""
        here = [each for each in status["processes"] if each["state"] == "in the training"]
        pids = [int(each["place"].rpartition(":")[2]) for each in here]
        for pid in pids:
            spans = self.workers.setdefault(pid, [])
            if not spans or now - spans[-1][1] > 4 * _LOOK_SECONDS:
                spans.append([now, now])
            spans[-1][1] = now
        if status["step"]:
            self.steps.append((now, status["step"]))
        self.rescales = status["rescales"] or self.rescales
        return pids


def train(name: str, workers: str, log: Path, *, disturb: bool) -> Seen:
    """Run the training; if asked, let it grow to three workers, and then kill one.

    Raises:
        DemoError: It failed.
    """
    words = [sys.executable, "-m", "tf_malleable_cli", "elastic", "local", "--name", name]
    words += [
        "--workers",
        workers,
        "--shards",
        "4",
        "--threads",
        "1",
        "--seed",
        "1",
        "--no-replace",
    ]
    words += ["--", sys.executable, str(TRAINING), "--epochs", str(EPOCHS)]
    seen = Seen()
    begin = time.monotonic()
    with log.open("w") as output:
        process = subprocess.Popen(
            words, stdin=subprocess.DEVNULL, stdout=output, stderr=output, start_new_session=True
        )
        try:
            while process.poll() is None:
                now = time.monotonic() - begin
                if now > _LONGEST_SECONDS:
                    raise DemoError(f"the training takes longer than {_LONGEST_SECONDS:g} s")
                with suppress(OperationError):
                    _step(name, seen, now, disturb=disturb)
                time.sleep(_LOOK_SECONDS)
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGTERM)
                process.wait()
    seen.ends = set(_WEIGHTS.findall(log.read_text()))
    if process.returncode or not seen.ends:
        raise DemoError(f"the training ended with {process.returncode}; see {log}")
    return seen


def _step(name: str, seen: Seen, now: float, *, disturb: bool) -> None:
    found = training_registry.read(name)
    status = training_registry.ask(found, {"kind": "status"})
    pids = seen.look(now, status)
    share = status["step"] / (EPOCHS * STEPS)
    if not disturb:
        return
    if share >= GROWS_AFTER and status["wanted"]["workers"] == 1:
        training_registry.ask(found, {"kind": "set", "workers": 3, "servers": None})
        print(f"{now:5.1f} s: two more workers are started")
    if len(pids) == 3 and seen.together is None:
        seen.together = now
    is_due = seen.together is not None and now - seen.together > TOGETHER_SECONDS
    if is_due and len(pids) == 3 and seen.killed is None:
        seen.killed = now, pids[1]
        os.kill(pids[1], signal.SIGKILL)
        print(f"{now:5.1f} s: worker {pids[1]} is killed")


def tell(grown: Seen, alone: Seen) -> bool:
    """Print what became of both; return whether they ended alike."""
    for each in grown.rescales[1:]:
        pause = each["pause_seconds"]
        print(
            f"generation {each['number']}: {each['reason']}, {each['workers_from']} → "
            f"{each['workers_to']} workers"
            + ("" if pause is None else f", others paused for {pause * 1000:.0f} ms")
        )
    print(f"\ndisturbed:   {' and '.join(sorted(grown.ends))}")
    print(f"undisturbed: {' and '.join(sorted(alone.ends))}")
    return len(grown.ends | alone.ends) == 1


def draw(grown: Seen, alone: Seen, *, alike: bool) -> Figure:
    """Return the picture: who took part when, and how far both were."""
    figure = Figure(figsize=(8, 4.6), layout="constrained")
    above, below = figure.subplots(2, sharex=True, height_ratios=[1, 1.6])
    zero = grown.steps[0][0]
    for row, (pid, spans) in enumerate(grown.workers.items()):
        for start, stop in spans:
            above.barh(
                row, stop - start, left=start - zero, height=0.6, color=style.COLOURS[row % 6]
            )
        if grown.killed is not None and grown.killed[1] == pid:
            above.plot(grown.killed[0] - zero, row, "x", color=style.ALARM, markersize=10, mew=2.5)
    count = len(grown.workers)
    above.set_yticks(range(count), [f"worker {number + 1}" for number in range(count)])
    above.invert_yaxis()
    style.title(above, "Workers come, and one is killed (x)")
    for name, seen, colour in (
        ("workers that come and go", grown, style.COLOURS[0]),
        ("one worker, undisturbed", alone, style.COLOURS[1]),
    ):
        seconds, steps = zip(*seen.steps, strict=True)
        below.plot([each - seconds[0] for each in seconds], steps, color=colour, label=name)
    below.set_xlabel("seconds from the first step")
    below.set_ylabel("steps")
    below.legend(loc="lower right", frameon=False)
    ends = "the same weights, to the bit" if alike else "different weights"
    style.title(below, f"Both end with {ends}")
    style.frame(above)
    style.frame(below, "y")
    return figure


def demonstrate(out: Path) -> int:
    """Run both trainings, print and draw; return 0 if they ended alike.

    Raises:
        DemoError, OperationError, OSError: It cannot be done.
    """
    logs = out.with_suffix("")
    logs.mkdir(parents=True, exist_ok=True)
    print("A CNN with BatchNorm, Dropout and Adam, trained by one worker, then three …")
    name = f"demo-{os.getpid()}"
    grown = train(name, "1:3", logs / "disturbed.log", disturb=True)
    print("… and once more by one worker, undisturbed.\n")
    alone = train(name, "1", logs / "undisturbed.log", disturb=False)
    alike = tell(grown, alone)
    print("The same weights, to the bit." if alike else "The weights differ.")
    style.write(draw(grown, alone, alike=alike), out)
    print(f"Picture: {out}")
    return 0 if alike else 1


def main() -> int:
    """Run the demo."""
    parser = Parser("demo-elastic", description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, default=Path("out/demo-elastic.png"), help="picture")
    out = parser.parse_args().out.absolute()
    if not is_picture(out):
        parser.error(f"--out must be a file .png or .svg, not {out.name!r}")
    end_on_signals()
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    os.chdir(REPOSITORY)
    try:
        return demonstrate(out)
    except KeyboardInterrupt:
        print("\ndemo-elastic: interrupted", file=sys.stderr)
        return 130
    except (DemoError, OperationError, OSError) as error:
        print(f"demo-elastic: {error}", file=sys.stderr)
        return 1


if __name__ == "__main__":
    sys.exit(main())
