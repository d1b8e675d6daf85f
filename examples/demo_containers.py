# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Real trainings in real containers, whose CPUs change while they train.

First one by itself, its CPUs changed by hand; then two under a controller. The
trainings are an ordinary Keras program, and the image is of this machine's own Python.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

from command_line import Parser
from container_image import ImageError
from container_picture import Cores, draw
from container_stage import Containers, Show, containers
from demo import BIN, DemoError

from tf_malleable.cli.tables import console, table
from tf_malleable.containers.engine import EngineGoneError, EngineRefusedError, Update
from tf_malleable.figures.formats import is_picture
from tf_malleable.model import OperationError, format_cpuset
from tf_malleable.model.units import number
from tf_malleable.workload.interrupts import end_on_signals
from tf_malleable.workload.private_controller import private_controller

# A phase is to be long enough for a few lines of a training.
SHORTEST, LONGEST = 2.0, 60.0


def by_hand(ours: Containers, show: Show, seconds: float) -> None:
    """Change the CPUs of one container."""
    cpus = sorted(os.sched_getaffinity(0))
    most, everything = len(cpus), format_cpuset(cpus)
    show.say(f"docker run -d --init --name demo-by-hand --cpus 1 --cpuset-cpus {everything} …")
    ours.start("demo-by-hand", cpus)
    changes = (
        ("--cpus 1", 1, None),
        (f"--cpus {most}", most, Update(quota_cpus=most)),
        (f"--cpuset-cpus {cpus[0]}", 1, Update(cpuset=str(cpus[0]))),
        (f"--cpuset-cpus {everything}", most, Update(cpuset=everything)),
    )
    training = show.enter("demo-by-hand")
    training.cores.append(Cores(0.0, 1, 1))
    rows = []
    for option, given, update in changes:
        if update is not None:
            show.say(f"docker update {option} demo-by-hand")
            ours.engine.update(training.name, update)
            training.cores.append(Cores(show.now(), given, given))
        phase = show.phase(option, seconds)
        threads = training.last_in(phase).threads
        rows.append((option, str(given), str(threads), number(training.speed(phase))))
    print()
    console().print(table(("docker update", ">CPUs", ">threads", ">steps/s"), rows))
    print(flush=True)


def shared(ours: Containers, show: Show, seconds: float) -> None:
    """Let two containers share the machine under a controller.

    Args:
        ours: Makes them.
        show: The scene, with its controller.
        seconds: How long a phase is.
    """
    ours.submit(show, "demo-first")
    first = show.enter("demo-first")
    show.phase("the first alone", seconds)
    ours.submit(show, "demo-second")
    second = show.enter("demo-second")
    show.phase("both", seconds)
    show.table()
    show.command("container", "pause", first.name)
    show.phase("the first paused", seconds)
    show.table()
    show.command("container", "resume", first.name)
    show.phase("both again", seconds)
    show.stop(second)
    show.phase("the first alone again", seconds)
    show.table()
    rows = [
        (phase.name, *(number(training.speed(phase)) for training in (first, second)))
        for phase in show.phases
    ]
    console().print(table(("steps/s", ">demo-first", ">demo-second"), rows))


def demonstrate(seconds: float, out: Path) -> None:
    """Run both scenes, print and draw.

    Raises:
        DemoError, OperationError, EngineGoneError, EngineRefusedError, ImageError,
        OSError: It cannot be done.
    """
    logs = out.with_suffix("")
    logs.mkdir(parents=True, exist_ok=True)
    with containers(logs) as ours:
        print("One container without a controller, its CPUs changed by hand:")
        alone = Show(logs)
        by_hand(ours, alone, seconds)
        upper = alone.scene("One container, its CPUs changed by hand")
        ours.remove()
        print("\nTwo containers under a controller, which gives everybody the same:")
        with private_controller("--policy=equal", log=logs / "controller.log") as controller:
            show = Show(logs, controller.client)
            try:
                shared(ours, show, seconds)
            finally:
                ours.remove()
            lower = show.scene("Two containers under a controller")
    draw(upper, lower, out)
    print(f"\nPicture: {out}")


def arguments() -> tuple[float, Path]:
    """Return the length of a phase, and where the picture goes."""
    parser = Parser("demo-containers", description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=float, default=4.0, help="length of a phase")
    parser.add_argument(
        "--out", type=Path, default=Path("out/demo-containers.png"), help="the picture"
    )
    found = parser.parse_args()
    if not SHORTEST <= found.seconds <= LONGEST:
        parser.error(
            f"--seconds must be a number from {SHORTEST:g} to {LONGEST:g}, not {found.seconds:g}"
        )
    if not is_picture(found.out):
        parser.error(f"--out must be a file .png or .svg, not {found.out.name!r}")
    if len(os.sched_getaffinity(0)) < 2:
        parser.error("there must be two CPUs to share out, and there is one")
    return found.seconds, found.out.absolute()


def main() -> int:
    """Run the demo."""
    seconds, out = arguments()
    end_on_signals()
    os.environ["PATH"] = f"{BIN}{os.pathsep}{os.environ.get('PATH', os.defpath)}"
    try:
        demonstrate(seconds, out)
    except KeyboardInterrupt:
        print("\ndemo-containers: interrupted", file=sys.stderr)
        return 130
    except (
        *(DemoError, OperationError, ImageError, OSError),
        *(EngineGoneError, EngineRefusedError),
    ) as error:
        print(f"demo-containers: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
