# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Prints results.json as Markdown tables.

The tables below docs/benchmarks are written from them.
"""

from __future__ import annotations

import json
import sys
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmarks.common import machine
from benchmarks.common.rows import Row, interval, shown, target
from benchmarks.common.runs import METRICS, Run, Table
from examples.command_line import Parser

_NONE = "–"


def conditions(results: dict[str, Any]) -> str:
    """Return the table that says what was measured where and how it is repeated."""
    place, versions = results["machine"], dict(results["versions"])
    if "docker" in results:
        versions["docker"] = results["docker"]
    memory = place["memory_bytes"] / 2**30
    changed = ", with uncommitted changes" if results["uncommitted_changes"] else ""
    rows = [
        ("command", f"`{results['command']}`"),
        ("commit", f"`{str(results['commit'])[:12]}`{changed}"),
        ("date, length", f"{results['date'][:10]}, {results['seconds'] / 60:.0f} min"),
        ("machine", f"{place['cpus']} cores of {place['cpu']}, {memory:.0f} GiB"),
        ("versions", ", ".join(f"{name} {said}" for name, said in versions.items())),
        ("kernel", place["kernel"]),
        ("CPU time taken by", machine.noise_text(results["noise"])),
    ]
    if "pace" in results:
        factors = (f"{program} {factor:g}" for program, factor in results["pace"].items())
        rows.append(("speed, to which steps are scaled", ", ".join(factors)))
    return _table(("", ""), rows)


def times(table: Table, titles: Mapping[str, str]) -> str:
    """Return medians of makespan and mean turnaround: a line a workload, a column a way."""
    names = list(dict.fromkeys(n for w in table.workloads() for n in table.configurations(w)))
    rows = []
    for workload in table.workloads():
        measured = table.configurations(workload)
        cells = [
            " / ".join(f"{table.middle(workload, name, metric):.1f}" for metric in METRICS)
            if name in measured
            else _NONE
            for name in names
        ]
        rows.append((": ".join(filter(None, (workload, titles.get(workload)))), *cells))
    return _table(("workload", *names), rows)


def matrix(rows: Sequence[Row]) -> str:
    """Return rows that have a workload: a line a label, a column a workload."""
    workloads = list(dict.fromkeys(row.workload for row in rows))
    found: dict[tuple[str, str], dict[str, Row]] = {}
    for row in rows:
        found.setdefault((row.measure, row.label), {})[row.workload] = row
    lines = []
    for (_, label), cells in found.items():
        first = next(iter(cells.values()))
        values = (_value(cells[w]) if w in cells else _NONE for w in workloads)
        lines.append((label, target(first) or _NONE, *values))
    return _table(("measure", "target", *workloads), lines)


def listed(rows: Sequence[Row]) -> str:
    """Return other rows: each with its interval and remark."""
    lines = [
        (
            " ".join(filter(None, (f"{row.measure}: {row.label}", row.workload))),
            target(row) or _NONE,
            " ".join(filter(None, (_value(row), interval(row)))),
            row.remark,
        )
        for row in rows
    ]
    return _table(("measure", "target", "measured", ""), lines)


def page(results: dict[str, Any]) -> str:
    """Return all tables of one results.json."""
    rows = [Row.from_json(each) for each in results["rows"]]
    runs = tuple(Run.from_json(each) for each in results["runs"])
    count = Counter((row.measure, row.label) for row in rows if row.workload)
    # What has one workload where others have several would be a line of dashes.
    least = min(2, max(count.values(), default=0))
    crossed = [row for row in rows if row.workload and count[row.measure, row.label] >= least]
    # A cell has no room for an interval, which these need.
    others = [row for row in rows if row not in crossed or not row.is_sure]
    parts = [f"## {results['benchmark']}", conditions(results)]
    if runs:
        parts.append(
            f"{' / '.join(METRICS)} in seconds, medians:\n\n{times(Table(runs), results['titles'])}"
        )
    if crossed:
        parts.append(matrix(crossed))
    if others:
        parts.append(listed(others))
    return "\n\n".join(parts)


def _value(row: Row) -> str:
    text = shown(row.found.value, row.unit)
    return f"**{text}**" if row.verdict == "missed" else text


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = (head, ["---"] * len(head), *rows)
    # A bar would end a cell.
    return "\n".join(
        f"| {' | '.join(cell.replace('|', '/') for cell in line)} |".replace("|  |", "| |")
        for line in lines
    )


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the tables of the files that the command line names."""
    parser = Parser("tables", description=__doc__)
    parser.add_argument("files", nargs="+", type=Path, metavar="results.json")
    for path in parser.parse_args(arguments).files:
        try:
            text = page(json.loads(path.read_text()))
        except OSError as error:
            parser.error(f"cannot read {path}: {error.strerror}")
        except (ValueError, KeyError, TypeError):
            parser.error(f"{path} holds no results of a benchmark of this version")
        print(f"{text}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
