# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""A live job is changed by its own methods, and by nobody else."""

from __future__ import annotations

import ast
from dataclasses import fields
from pathlib import Path

from tf_malleable import controller
from tf_malleable.controller.jobs.grant_delivery import GrantDelivery
from tf_malleable.controller.jobs.job_measurements import JobMeasurements
from tf_malleable.controller.jobs.job_processes import JobProcesses
from tf_malleable.controller.jobs.live_job import LiveJob

PARTS = (LiveJob, JobMeasurements, JobProcesses, GrantDelivery)
FIELDS = {field.name for part in PARTS for field in fields(part)}


def changed_from_outside(source: str) -> list[str]:
    """Return the fields of a live job that this code assigns to other than through self."""
    found = []
    for node in ast.walk(ast.parse(source)):
        targets: list[ast.expr] = []
        if isinstance(node, ast.Assign):
            targets = node.targets
        elif isinstance(node, ast.AugAssign | ast.AnnAssign):
            targets = [node.target]
        for target in targets:
            for each in ast.walk(target):
                if isinstance(each, ast.Attribute) and each.attr in FIELDS:
                    owner = each.value.id if isinstance(each.value, ast.Name) else "?"
                    if owner != "self" and isinstance(each.ctx, ast.Store):
                        found.append(f"{owner}.{each.attr}")
    return found


def test_the_check_sees_what_it_is_for():
    assert changed_from_outside("live.stopped = True") == ["live.stopped"]
    assert changed_from_outside("before, jobs[0].tree = 1, []") == ["?.tree"]
    assert changed_from_outside("self.stopped = True; print(live.processes.tree)") == []


def test_no_other_module_assigns_to_a_live_job():
    folder = Path(controller.__file__).parent
    found = {
        str(path.relative_to(folder)): changes
        for path in sorted(folder.rglob("*.py"))
        if (changes := changed_from_outside(path.read_text()))
    }
    assert found == {}
