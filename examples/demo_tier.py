# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Four nodes read a slow source, six epochs in another order each, without data tiers and with.

The source passes a folder through FUSE, with a limit of bandwidth; each node is a mount
namespace. So this needs root, /dev/fuse and libfuse3-dev.
"""

from __future__ import annotations

import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

from command_line import Parser
from matplotlib.figure import Figure

from benchmarks.common.command_line import BenchmarkError
from benchmarks.tier.cluster import SlowSource, cluster, read
from tf_malleable.figures import style
from tf_malleable.figures.formats import is_picture
from tf_malleable.workload.interrupts import end_on_signals

REPOSITORY = Path(__file__).parent.parent
NODES, EPOCHS = 4, 6
FILES, SIZE = 16, 4_000_000
RATE, LATENCY = 25_000_000, 0.0005


@dataclass(frozen=True)
class Arm:
    """What was seen of one way to read.

    Attributes:
        name: Name of the way.
        seconds: How long each epoch took.
        megabytes: Read from the source.
        opens: Files that were opened in the source.
    """

    name: str
    seconds: tuple[float, ...]
    megabytes: float
    opens: int


def run(source: SlowSource, folder: Path, name: str, *, with_tier: bool) -> Arm:
    """Have the nodes read."""
    source.limit(0, 0)
    with cluster(source, folder, NODES, () if with_tier else None) as nodes:
        source.limit(RATE, LATENCY)
        before = source.asked()
        epochs = read(source, nodes, EPOCHS)
        asked = source.asked().since(before)
    seconds = tuple(max(node["seconds"] for node in epoch) for epoch in epochs)
    print(
        f"{name:12} {sum(seconds):5.1f} s, {asked.bytes / 1e6:6.1f} MB and {asked.opens} opens"
        f" of the source; epochs: {', '.join(f'{each:.1f}' for each in seconds)} s"
    )
    return Arm(name, seconds, asked.bytes / 1e6, asked.opens)


def draw(plain: Arm, tier: Arm) -> Figure:
    """Return the picture: how long each epoch took, and what the source was asked."""
    figure = Figure(figsize=(8, 3.6), layout="constrained")
    left, right = figure.subplots(1, 2, width_ratios=[2, 1])
    for offset, arm, colour in ((-0.2, plain, style.COLOURS[1]), (0.2, tier, style.COLOURS[0])):
        where = [number + 1 + offset for number in range(EPOCHS)]
        left.bar(where, arm.seconds, width=0.4, color=colour, label=arm.name)
    left.set_xlabel("epoch")
    left.set_ylabel("seconds")
    left.legend(frameon=False)
    style.title(left, f"{sum(plain.seconds):.0f} s without, {sum(tier.seconds):.0f} s with tiers")
    names = [plain.name, tier.name]
    right.bar(names, [plain.megabytes, tier.megabytes], color=[style.COLOURS[1], style.COLOURS[0]])
    right.set_ylabel("MB read from the source")
    style.title(right, f"1 / {plain.megabytes / max(1e-9, tier.megabytes):.1f} of the bytes")
    for axes in (left, right):
        style.frame(axes, "y")
    return figure


def main() -> int:
    """Run the demo."""
    parser = Parser("demo-tier", description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, default=Path("out/demo-tier.png"), help="picture")
    out = parser.parse_args().out.absolute()
    if not is_picture(out):
        parser.error(f"--out must be a file .png or .svg, not {out.name!r}")
    end_on_signals()
    try:
        with tempfile.TemporaryDirectory(prefix="tfm-demo-tier-") as folder:
            source = SlowSource(Path(folder, "source"))
            source.fill(FILES, SIZE)
            print(f"{NODES} nodes, {FILES * SIZE / 1e6:.0f} MB, {RATE / 1e6:.0f} MB/s …")
            arms = [
                run(source, Path(folder, f"nodes{with_tier:d}"), name, with_tier=with_tier)
                for name, with_tier in (("without", False), ("with tiers", True))
            ]
        out.parent.mkdir(parents=True, exist_ok=True)
        style.write(draw(*arms), out)
        print(f"Picture: {out}")
        return 0
    except KeyboardInterrupt:
        print("\ndemo-tier: interrupted", file=sys.stderr)
        return 130
    except (BenchmarkError, OSError) as error:
        print(f"demo-tier: {error}", file=sys.stderr)
        return 1


if __name__ == "__main__":
    sys.exit(main())
