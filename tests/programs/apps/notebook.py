# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""A Jupyter front end: executes the cells of stdin, one a line, until that ends.

For each it prints one line: what the cell has printed, or the exception that it has raised. The
line "interrupt CELL" interrupts the kernel while it executes a cell that has printed something,
"restart" restarts it.
"""

from __future__ import annotations

import sys

from jupyter_client import BlockingKernelClient, KernelManager

SECONDS = 300.0


def execute(cell: str, *, interrupting: bool = False) -> str:
    """Return what a cell prints; with the name of the exception that ends it."""
    printed, raised = "", ""

    def hear(message):
        nonlocal printed, raised
        kind, content = message["header"]["msg_type"], message["content"]
        if kind == "stream" and content["name"] == "stdout":
            # A line may come in two messages; a second interrupt would end the report of the first.
            if interrupting and not printed:
                manager.interrupt_kernel()
            printed += content["text"]
        elif kind == "error":
            raised = content["ename"]

    client.execute_interactive(cell, timeout=SECONDS, output_hook=hear)
    return " ".join([*printed.split(), *raised.split()])


def connected() -> BlockingKernelClient:
    """Return a client of the kernel, once that is ready."""
    new = manager.client()
    new.start_channels()
    new.wait_for_ready(timeout=SECONDS)
    return new


manager = KernelManager(kernel_name="python3")
manager.start_kernel()
client = connected()
for line in map(str.strip, sys.stdin):
    if line == "restart":
        client.stop_channels()
        manager.restart_kernel()
        client = connected()
        print("restarted", flush=True)
    else:
        cell = line.removeprefix("interrupt ")
        print(execute(cell, interrupting=cell != line), flush=True)
client.stop_channels()
manager.shutdown_kernel()
